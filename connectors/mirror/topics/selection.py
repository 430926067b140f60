"""Selects the topics that a flow copies, and plans what the target lacks for them. Pure: works on
names and partition counts only.

The rules are those of MirrorMaker 2 with two differences. Copies on the target are looked up by
their full name, so an alias that contains the separator works too. If source and target are one
cluster, both aliases count in the check for cycles, so that names cannot grow without end
(`A.A.A.t`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from connect.errors import ConfigError
from connect.protocol.messages import TopicPartition
from connectors.mirror.filters import TopicFilter
from connectors.mirror.replication_policy import ReplicationPolicy, is_cycle

__all__ = [
    "REFUSED",
    "Growth",
    "MissingTopic",
    "Selection",
    "Skip",
    "SkipReason",
    "TopicPartition",
    "TopicPlan",
    "TopicSelector",
    "assign_partitions",
    "encode_partitions",
    "partitions_of",
    "plan_topics",
]


class SkipReason(Enum):
    """Why a topic of the source is not copied."""

    FILTER = "filter"
    INTERNAL = "internal"
    CYCLE = "cycle"
    SAME_NAME = "same name"
    LOOP = "loop"


REFUSED = (SkipReason.SAME_NAME, SkipReason.LOOP)
"""Why a topic is not copied although the properties select it."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A topic that is not copied. `detail` explains the reason to users."""

    topic: str
    reason: SkipReason
    detail: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The decision for each source topic. `copied`: number of partitions by name."""

    copied: Mapping[str, int]
    skipped: tuple[Skip, ...]


@dataclass(frozen=True, slots=True)
class TopicSelector:
    """Selects the topics of one flow. Immutable; shared by threads."""

    policy: ReplicationPolicy
    topics: TopicFilter
    source_alias: str
    target_alias: str
    replicate_heartbeats: bool = True
    same_cluster: bool = False
    """Source and target are one cluster under two aliases."""

    def remote(self, topic: str) -> str:
        """Return the target's name for a source topic."""
        return self.policy.remote_topic(self.source_alias, topic)

    def changes_records(self, topic: str) -> bool:
        """Whether transformations may change or drop records of this source topic."""
        return self.policy.changes_records(self.source_alias, topic)

    def skip(self, topic: str) -> Skip | None:
        """Return why `topic` is not copied; None if it is."""
        if self.policy.is_internal_topic(topic):
            return Skip(topic, SkipReason.INTERNAL, "internal to Kafka or to the mirror")
        wanted = self.topics.should_replicate_topic(topic)
        if not wanted and not (
            self.replicate_heartbeats and self.policy.is_heartbeats_topic(topic)
        ):
            return Skip(topic, SkipReason.FILTER, self.topics.why_not(topic))
        if is_cycle(self.policy, topic, self.target_alias):
            return Skip(topic, SkipReason.CYCLE, f"copied from {self.target_alias}, the target")
        if self.same_cluster and self._returns_to_source(topic):
            detail = f"copied from {self.source_alias}, which is the target under another alias"
            return Skip(topic, SkipReason.CYCLE, detail)
        return None

    def select(self, source_topics: Mapping[str, int], mirrored: Container[str] = ()) -> Selection:
        """Decide for every source topic. `mirrored`: topics that the flow copies already. Raises
        `ConfigError` for a flow that would copy topics onto themselves."""
        copied: dict[str, int] = {}
        skipped: list[Skip] = []
        for topic in sorted(source_topics):
            skip = self.skip(topic) or self._routed_wrong(topic)
            if skip is None:
                copied[topic] = source_topics[topic]
            else:
                skipped.append(skip)
        if self.same_cluster:
            self._refuse_self_copies(copied)
        for skip in self._same_names(copied, mirrored):
            del copied[skip.topic]
            skipped.append(skip)
        return Selection(copied, tuple(skipped))

    def _same_names(self, topics: Iterable[str], mirrored: Container[str]) -> list[Skip]:
        """Return the topics that a policy gives the name of another topic. A topic that the flow
        copies already keeps the name. Otherwise none gets it: the order of two topics in one, and
        with it the translation of offsets, would be left to chance."""
        sharing: dict[str, list[str]] = {}
        for topic in topics:
            sharing.setdefault(self.remote(topic), []).append(topic)
        skipped = []
        for remote, names in sharing.items():
            first = [name for name in names if name in mirrored]
            for name in names if len(names) > 1 else ():
                if first != [name]:
                    others = ", ".join(each for each in names if each != name)
                    detail = (
                        f"would be named {remote} on {self.target_alias}, as would {others}: give "
                        "them different names, or exclude all but one"
                    )
                    skipped.append(Skip(name, SkipReason.SAME_NAME, detail))
        return skipped

    def _routed_wrong(self, topic: str) -> Skip | None:
        """Return why transformations cannot rename `topic` as they do; None if they can."""
        if self.policy.chain is not None:
            remote = self.remote(topic)
            if self.policy.is_internal_topic(remote):
                detail = f"transforms rename its copy to {remote}, which is an internal topic"
                return Skip(topic, SkipReason.INTERNAL, detail)
        return None

    def _returns_to_source(self, topic: str) -> bool:
        # A policy that keeps names gives the source as the origin of every topic, which proves no
        # cycle.
        return self.remote(topic) != topic and is_cycle(self.policy, topic, self.source_alias)

    def _refuse_self_copies(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if self.remote(topic) == topic:
                raise ConfigError(
                    f"{self.source_alias} and {self.target_alias} are the same cluster, and "
                    f"{type(self.policy).__name__} keeps names: topic {topic} would be copied onto "
                    "itself without end. Correct the bootstrap.servers of one of them, or use the "
                    "DefaultReplicationPolicy.",
                    key="replication.policy.class",
                )


@dataclass(frozen=True, slots=True)
class MissingTopic:
    """A topic to create on the target. `partitions`: the source's number."""

    source: str
    remote: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Growth:
    """A target topic that has fewer partitions than its source."""

    source: str
    remote: str
    existing: int
    wanted: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Topics and partitions to create. Topics with more partitions than their source stay as is."""

    create: tuple[MissingTopic, ...] = ()
    grow: tuple[Growth, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.grow)


def plan_topics(
    copied: Mapping[str, int], target_topics: Mapping[str, int], selector: TopicSelector
) -> TopicPlan:
    """Return the topics and partitions to create on the target. `copied`: number of partitions by
    source topic."""
    create: list[MissingTopic] = []
    grow: list[Growth] = []
    for topic, partitions in copied.items():
        remote = selector.remote(topic)
        existing = target_topics.get(remote)
        if existing is None:
            create.append(MissingTopic(topic, remote, partitions))
        elif existing < partitions:
            grow.append(Growth(topic, remote, existing, partitions))
    return TopicPlan(tuple(create), tuple(grow))


def partitions_of(topics: Mapping[str, int]) -> list[TopicPartition]:
    """Return every partition of these topics, sorted by name and number. `topics`: number of
    partitions by name."""
    return [(topic, partition) for topic in sorted(topics) for partition in range(topics[topic])]


def assign_partitions(
    partitions: Sequence[TopicPartition],
    max_tasks: int,
    previous: Sequence[Sequence[TopicPartition]] = (),
) -> list[list[TopicPartition]]:
    """Assign partitions to min(max_tasks, len(partitions)) tasks. Every task gets at least one.

    A partition stays with the task that had it (`previous`, by task index), so that a new topic
    does not disturb running copies. Other partitions go to the task with the fewest. Without
    `previous` this is Java's round robin.
    """
    count = min(max_tasks, len(partitions))
    remaining = dict.fromkeys(partitions)
    tasks: list[list[TopicPartition]] = [[] for _ in range(count)]
    for task, kept in zip(tasks, previous, strict=False):
        for partition in kept:
            if partition in remaining:
                del remaining[partition]
                task.append(partition)
    for partition in remaining:
        min(tasks, key=len).append(partition)
    while count and not min(tasks, key=len):
        min(tasks, key=len).append(max(tasks, key=len).pop())
    return tasks


def encode_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Encode the value of `task.assigned.partitions`: `<topic>-<partition>`, separated by
    commas."""
    return ",".join(f"{topic}-{partition}" for topic, partition in partitions)
