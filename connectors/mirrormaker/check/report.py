"""The result of `--check` as plain values. `check.py` fills them in, and the command line prints
them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from connectors.mirror.topics.selection import Skip
from connectors.mirrormaker.check.backlog import Backlog

__all__ = [
    "CREATE",
    "EXISTS",
    "CheckReport",
    "ClientReport",
    "ClientSetting",
    "ClusterReport",
    "Finding",
    "FlowReport",
    "Level",
    "TopicReport",
]


CREATE, EXISTS = "create", "exists"


class Level(Enum):
    """Severity of a finding. ERROR: the flow, or one of its topics, would not work."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A message to the user before the start. `subject`: a flow, a key or a topic."""

    level: Level
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """One cluster. If it was not reached, `cluster_id` is None and `error` says why."""

    alias: str
    bootstrap: str
    cluster_id: str | None = None
    brokers: int = 0
    topics: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic on the target, and what the flow would do with it.

    `action`: `create`, `raise from N` or `exists`. `configs`: those of a topic to create.
    """

    topic: str
    remote: str
    partitions: int
    action: str
    replication_factor: int | None = None
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientSetting:
    """One client property. `origin`: the key of the file that it came from, or another source. The
    `value` of a secret is hidden.
    """

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class ClientReport:
    """The effective properties of one client."""

    role: str
    settings: tuple[ClientSetting, ...]


@dataclass(slots=True)
class FlowReport:
    """One flow. `mirrors`: whether it copies topics; otherwise it only sends heartbeats."""

    source: str
    target: str
    mirrors: bool
    topics: list[TopicReport] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)
    own_topics: list[tuple[str, TopicReport]] = field(default_factory=list)
    """The mirror's internal topics, as (alias of the cluster that holds it, topic)."""
    clients: list[ClientReport] = field(default_factory=list)
    backlog: Backlog | None = None
    """What is not copied yet; None if it was not determined."""

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def changes(self) -> list[TopicReport]:
        """Return the topics that the flow would create or change."""
        topics = [*self.topics, *(topic for _, topic in self.own_topics)]
        return [topic for topic in topics if topic.action != EXISTS]


@dataclass(slots=True)
class CheckReport:
    """The whole report. `can_run`: no finding is an error."""

    clusters: list[ClusterReport] = field(default_factory=list)
    flows: list[FlowReport] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether some flow would create or change a topic."""
        return any(flow.changes for flow in self.flows)

    @property
    def can_run(self) -> bool:
        return not any(finding.level is Level.ERROR for finding in self.findings)
