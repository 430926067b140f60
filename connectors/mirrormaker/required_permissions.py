"""The permissions that each feature of a flow needs, as one table.

The reference page, the questions of `--check`, the command `acls` and the tests on brokers with an
authorizer are made from it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from connect.clients.permissions import Operation, Resource
from connectors.mirror.config.clients import Side

__all__ = [
    "ON_REQUEST",
    "OTHERS",
    "PERMISSIONS",
    "READERS",
    "TOOLS",
    "Feature",
    "FlowNames",
    "Pattern",
    "RequiredPermission",
    "by_cluster",
    "required_permissions",
]

_READ, _WRITE, _CREATE = Operation.READ, Operation.WRITE, Operation.CREATE
_DESCRIBE, _ALTER = Operation.DESCRIBE, Operation.ALTER
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
_IDEMPOTENT_WRITE = Operation.IDEMPOTENT_WRITE


class Feature(Enum):
    """A part of a flow that can be switched on or off, or a program beside it."""

    WORKER = "every worker"
    COPYING = "copying"
    NEW_PARTITIONS = "new partitions"
    OFFSET_MAP = "offset map"
    PROVENANCE = "provenance"
    GROUP_OFFSETS = "group offsets"
    GROUP_SYNC = "group sync"
    HEARTBEATS = "heartbeats"
    COPIED_HEARTBEATS = "copied heartbeats"
    CONFIG_SYNC = "config sync"
    HEARTBEAT_CONFIG_SYNC = "config sync of copied heartbeats"
    ACL_SYNC = "ACL sync"
    EXACTLY_ONCE = "exactly once"
    QUARANTINE = "quarantine"
    OLD_BROKERS = "brokers before 2.8"
    AUDIT = "audit"
    BACKFILL = "backfill"
    ARCHIVE = "archive"
    RESTORE = "restore"
    LAG = "lag"
    WHY = "why"
    TRANSLATE = "translate"
    COMMIT = "translate --commit"
    PAUSE = "pause"
    START = "start"
    START_COMMIT = "start --commit"
    START_CONNECTOR = "start --connector"
    CLUSTERS = "clusters"
    TOPICS = "topics"
    OFFSET_CHECKER = "kafka-consumer-offset-checker"
    OFFSET_CHECKER_FLOW = "kafka-consumer-offset-checker --config"
    DATA_SOURCE = "data source"
    SINK = "sink connectors"
    DEAD_LETTERS = "dead letter queue"
    SOURCE = "source connectors"
    MIRRORMAKER_1 = "kafka-mirror-maker"


READERS = frozenset(
    {
        Feature.AUDIT,
        Feature.LAG,
        Feature.WHY,
        Feature.TRANSLATE,
        Feature.START,
        Feature.CLUSTERS,
        Feature.TOPICS,
        Feature.OFFSET_CHECKER,
        Feature.OFFSET_CHECKER_FLOW,
        Feature.DATA_SOURCE,
    }
)
"""Programs that may run with a principal of their own, which needs only the permissions in their
rows."""

TOOLS = READERS | {
    Feature.BACKFILL,
    Feature.ARCHIVE,
    Feature.RESTORE,
    Feature.COMMIT,
    Feature.PAUSE,
    Feature.START_COMMIT,
    Feature.START_CONNECTOR,
}
"""Programs beside the flow. Programs other than `READERS` also need the rows of copying, of
translation or of start."""

ON_REQUEST = TOOLS | {Feature.OLD_BROKERS}
"""Features that no property of a flow switches on. `acls --with` names them."""

OTHERS = frozenset({Feature.SINK, Feature.DEAD_LETTERS, Feature.SOURCE, Feature.MIRRORMAKER_1})
"""Features that do not belong to a flow of MirrorMaker 2."""


class Pattern(NamedTuple):
    """The name of a resource, or the prefix of names."""

    name: str
    prefixed: bool = False

    def __str__(self) -> str:
        return f"{self.name}*" if self.prefixed else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNames:
    """The names of the resources of a flow, a worker or a connector; empty for what it does not
    have. `offsets_side`: the cluster of offset syncs and offset map. `others_offsets`: the topic of
    Connect workers whose offsets a flow takes over."""

    source: str
    target: str
    topics: tuple[Pattern, ...] = ()
    copies: tuple[Pattern, ...] = ()
    groups: tuple[Pattern, ...] = ()
    worker_group: str = ""
    worker_topics: tuple[str, ...] = ()
    offset_syncs: str = ""
    offset_map: str = ""
    provenance: str = ""
    offsets_side: Side = "source"
    checkpoints: str = ""
    heartbeats: str = ""
    copied_heartbeats: str = ""
    quarantine: str = ""
    sink_group: str = ""
    dead_letters: str = ""
    others_offsets: str = ""


class RequiredPermission(NamedTuple):
    """One operation on one resource of one cluster (its alias), and the feature that needs it."""

    cluster: str
    resource: Resource
    pattern: Pattern
    operation: Operation
    feature: Feature

    def __str__(self) -> str:
        what = " ".join(filter(None, (self.resource.value, str(self.pattern))))
        return f"{self.operation} on {what}"


_Names = Callable[[FlowNames], Sequence[Pattern]]
_Side = Callable[[FlowNames], Side]


@dataclass(frozen=True, slots=True)
class _Row:
    side: _Side
    resource: Resource
    names: _Names
    operations: tuple[Operation, ...]
    feature: Feature

    def of(self, names: FlowNames) -> Iterator[RequiredPermission]:
        cluster = names.source if self.side(names) == "source" else names.target
        for pattern in self.names(names):
            for operation in self.operations:
                yield RequiredPermission(cluster, self.resource, pattern, operation, self.feature)


def _one(name: Callable[[FlowNames], str]) -> _Names:
    return lambda names: [Pattern(found)] if (found := name(names)) else []


def _topics(names: FlowNames) -> Sequence[Pattern]:
    return names.topics


def _copies(names: FlowNames) -> Sequence[Pattern]:
    return names.copies


def _groups(names: FlowNames) -> Sequence[Pattern]:
    return names.groups


def _worker_topics(names: FlowNames) -> Sequence[Pattern]:
    return [Pattern(name) for name in names.worker_topics]


def _cluster(names: FlowNames) -> Sequence[Pattern]:
    return [Pattern("")]


def _transactional_ids(names: FlowNames) -> Sequence[Pattern]:
    # Those of tasks and executors, and the one by which the group's leader writes configs.
    group = names.worker_group
    return [Pattern(f"{group}-", prefixed=True), Pattern(f"connect-cluster-{group}")]


def _source(_: FlowNames) -> Side:
    return "source"


def _target(_: FlowNames) -> Side:
    return "target"


def _beside_syncs(names: FlowNames) -> Side:
    return names.offsets_side


_TOPIC, _GROUP = Resource.TOPIC, Resource.GROUP

_OWN = (_CREATE, _READ, _WRITE)
"""The operations on one of the mirror's own topics."""

_SYNCS, _MAP = _one(lambda n: n.offset_syncs), _one(lambda n: n.offset_map)
_PROVENANCE, _CHECKPOINTS = _one(lambda n: n.provenance), _one(lambda n: n.checkpoints)
_BEATS, _COPIED_BEATS = _one(lambda n: n.heartbeats), _one(lambda n: n.copied_heartbeats)
_QUARANTINE, _WORKER_GROUP = _one(lambda n: n.quarantine), _one(lambda n: n.worker_group)
_BACKFILL_GROUP = _one(lambda n: f"{n.worker_group}-backfill")
_ARCHIVE_GROUP = _one(lambda n: f"{n.worker_group}-archive")
_OFFSETS, _CONFIGS = _one(lambda n: n.worker_topics[0]), _one(lambda n: n.worker_topics[2])
_OTHERS_OFFSETS = _one(lambda n: n.others_offsets)
_SINK_GROUP, _DEAD_LETTERS = _one(lambda n: n.sink_group), _one(lambda n: n.dead_letters)

PERMISSIONS: tuple[_Row, ...] = (
    _Row(_target, _GROUP, _WORKER_GROUP, (_READ,), Feature.WORKER),
    _Row(_target, _TOPIC, _worker_topics, (*_OWN, _DESCRIBE_CONFIGS), Feature.WORKER),
    _Row(_source, _TOPIC, _topics, (_READ, _DESCRIBE_CONFIGS), Feature.COPYING),
    _Row(_beside_syncs, _TOPIC, _SYNCS, _OWN, Feature.COPYING),
    _Row(_target, _TOPIC, _copies, (_CREATE, _WRITE), Feature.COPYING),
    _Row(_target, _TOPIC, _copies, (_ALTER,), Feature.NEW_PARTITIONS),
    _Row(_beside_syncs, _TOPIC, _MAP, _OWN, Feature.OFFSET_MAP),
    _Row(_source, _TOPIC, _PROVENANCE, (_READ,), Feature.PROVENANCE),
    _Row(_target, _TOPIC, _PROVENANCE, _OWN, Feature.PROVENANCE),
    _Row(_source, _GROUP, _groups, (_DESCRIBE,), Feature.GROUP_OFFSETS),
    _Row(_target, _TOPIC, _CHECKPOINTS, _OWN, Feature.GROUP_OFFSETS),
    _Row(_target, _TOPIC, _copies, (_READ,), Feature.GROUP_SYNC),
    _Row(_target, _GROUP, _groups, (_READ,), Feature.GROUP_SYNC),
    _Row(_target, _TOPIC, _BEATS, (_CREATE, _WRITE), Feature.HEARTBEATS),
    _Row(_source, _TOPIC, _BEATS, (_READ, _DESCRIBE_CONFIGS), Feature.COPIED_HEARTBEATS),
    _Row(_target, _TOPIC, _COPIED_BEATS, (_CREATE, _WRITE), Feature.COPIED_HEARTBEATS),
    _Row(_target, _TOPIC, _copies, (_ALTER_CONFIGS,), Feature.CONFIG_SYNC),
    _Row(_target, _TOPIC, _COPIED_BEATS, (_ALTER_CONFIGS,), Feature.HEARTBEAT_CONFIG_SYNC),
    _Row(_source, Resource.CLUSTER, _cluster, (_DESCRIBE,), Feature.ACL_SYNC),
    _Row(_target, Resource.CLUSTER, _cluster, (_ALTER,), Feature.ACL_SYNC),
    _Row(_target, Resource.TRANSACTIONAL_ID, _transactional_ids, (_WRITE,), Feature.EXACTLY_ONCE),
    _Row(_target, _TOPIC, _QUARANTINE, (_CREATE, _WRITE), Feature.QUARANTINE),
    _Row(_beside_syncs, Resource.CLUSTER, _cluster, (_IDEMPOTENT_WRITE,), Feature.OLD_BROKERS),
    _Row(_target, Resource.CLUSTER, _cluster, (_IDEMPOTENT_WRITE,), Feature.OLD_BROKERS),
    _Row(_source, _TOPIC, _topics, (_READ, _DESCRIBE_CONFIGS), Feature.AUDIT),
    _Row(_target, _TOPIC, _copies, (_READ, _DESCRIBE_CONFIGS), Feature.AUDIT),
    _Row(_target, _TOPIC, _OFFSETS, (_READ,), Feature.AUDIT),
    _Row(_target, _GROUP, _BACKFILL_GROUP, (_READ,), Feature.BACKFILL),
    _Row(_target, _GROUP, _WORKER_GROUP, (_DESCRIBE,), Feature.BACKFILL),
    _Row(_target, _TOPIC, _OFFSETS, (*_OWN, _DESCRIBE_CONFIGS), Feature.BACKFILL),
    _Row(_target, _TOPIC, _copies, (_DESCRIBE_CONFIGS,), Feature.BACKFILL),
    _Row(_source, _TOPIC, _topics, (_READ, _DESCRIBE_CONFIGS), Feature.ARCHIVE),
    _Row(_source, _GROUP, _ARCHIVE_GROUP, (_READ,), Feature.ARCHIVE),
    _Row(_source, _GROUP, _groups, (_DESCRIBE,), Feature.ARCHIVE),
    _Row(_target, _TOPIC, _copies, (_READ, _DESCRIBE_CONFIGS), Feature.RESTORE),
    _Row(_target, _GROUP, _BACKFILL_GROUP, (_READ,), Feature.RESTORE),
    _Row(_target, _GROUP, _WORKER_GROUP, (_DESCRIBE,), Feature.RESTORE),
    _Row(_target, _TOPIC, _OFFSETS, (*_OWN, _DESCRIBE_CONFIGS), Feature.RESTORE),
    _Row(_target, _TOPIC, _CHECKPOINTS, _OWN, Feature.RESTORE),
    _Row(_source, _TOPIC, _topics, (_DESCRIBE,), Feature.LAG),
    _Row(_target, _GROUP, _WORKER_GROUP, (_DESCRIBE,), Feature.LAG),
    _Row(_target, _TOPIC, _OFFSETS, (_READ,), Feature.LAG),
    _Row(_target, _TOPIC, _CONFIGS, (_READ,), Feature.LAG),
    _Row(_source, _TOPIC, _topics, (_DESCRIBE,), Feature.WHY),
    _Row(_source, _GROUP, _groups, (_DESCRIBE,), Feature.WHY),
    _Row(_beside_syncs, _TOPIC, _SYNCS, (_READ,), Feature.WHY),
    _Row(_beside_syncs, _TOPIC, _MAP, (_READ,), Feature.WHY),
    _Row(_source, _TOPIC, _PROVENANCE, (_READ,), Feature.WHY),
    _Row(_target, _TOPIC, _PROVENANCE, (_READ,), Feature.WHY),
    _Row(_target, _TOPIC, _copies, (_DESCRIBE,), Feature.WHY),
    _Row(_target, _GROUP, _groups, (_DESCRIBE,), Feature.WHY),
    _Row(_target, _GROUP, _WORKER_GROUP, (_DESCRIBE,), Feature.WHY),
    _Row(_target, _TOPIC, _OFFSETS, (_READ,), Feature.WHY),
    _Row(_target, _TOPIC, _CONFIGS, (_READ,), Feature.WHY),
    _Row(_source, _TOPIC, _topics, (_DESCRIBE,), Feature.TRANSLATE),
    _Row(_source, _GROUP, _groups, (_DESCRIBE,), Feature.TRANSLATE),
    _Row(_beside_syncs, _TOPIC, _SYNCS, (_READ,), Feature.TRANSLATE),
    _Row(_beside_syncs, _TOPIC, _MAP, (_READ,), Feature.TRANSLATE),
    _Row(_target, _TOPIC, _copies, (_DESCRIBE,), Feature.TRANSLATE),
    _Row(_target, _GROUP, _groups, (_DESCRIBE,), Feature.TRANSLATE),
    _Row(_target, _TOPIC, _copies, (_READ,), Feature.COMMIT),
    _Row(_target, _GROUP, _groups, (_READ,), Feature.COMMIT),
    _Row(_target, _TOPIC, _CONFIGS, (_READ, _WRITE), Feature.PAUSE),
    _Row(_source, _TOPIC, _topics, (_DESCRIBE,), Feature.START),
    _Row(_source, _GROUP, _groups, (_DESCRIBE,), Feature.START),
    _Row(_target, _GROUP, _WORKER_GROUP, (_DESCRIBE,), Feature.START_COMMIT),
    _Row(_target, _TOPIC, _OFFSETS, (*_OWN, _DESCRIBE_CONFIGS), Feature.START_COMMIT),
    _Row(_target, _TOPIC, _OTHERS_OFFSETS, (_READ,), Feature.START_CONNECTOR),
    _Row(_target, _TOPIC, _BEATS, (_DESCRIBE,), Feature.CLUSTERS),
    _Row(_target, _TOPIC, _COPIED_BEATS, (_DESCRIBE,), Feature.CLUSTERS),
    _Row(_target, _TOPIC, _BEATS, (_DESCRIBE,), Feature.TOPICS),
    _Row(_target, _TOPIC, _COPIED_BEATS, (_DESCRIBE,), Feature.TOPICS),
    _Row(_target, _TOPIC, _CHECKPOINTS, (_DESCRIBE,), Feature.TOPICS),
    _Row(_target, _TOPIC, _copies, (_DESCRIBE,), Feature.TOPICS),
    _Row(_source, _TOPIC, _topics, (_DESCRIBE,), Feature.OFFSET_CHECKER),
    _Row(_source, _GROUP, _groups, (_DESCRIBE,), Feature.OFFSET_CHECKER),
    _Row(_source, _TOPIC, _topics, (_DESCRIBE,), Feature.OFFSET_CHECKER_FLOW),
    _Row(_target, _GROUP, _WORKER_GROUP, (_DESCRIBE,), Feature.OFFSET_CHECKER_FLOW),
    _Row(_target, _TOPIC, _OFFSETS, (_READ,), Feature.OFFSET_CHECKER_FLOW),
    _Row(_target, _TOPIC, _CONFIGS, (_READ,), Feature.OFFSET_CHECKER_FLOW),
    _Row(_source, _TOPIC, _topics, (_READ, _DESCRIBE_CONFIGS), Feature.DATA_SOURCE),
    _Row(_source, _GROUP, _groups, (_DESCRIBE,), Feature.DATA_SOURCE),
    _Row(_beside_syncs, _TOPIC, _SYNCS, (_READ,), Feature.DATA_SOURCE),
    _Row(_beside_syncs, _TOPIC, _MAP, (_READ,), Feature.DATA_SOURCE),
    _Row(_target, _TOPIC, _copies, (_READ, _DESCRIBE_CONFIGS), Feature.DATA_SOURCE),
    _Row(_target, _GROUP, _groups, (_DESCRIBE,), Feature.DATA_SOURCE),
    _Row(_target, _TOPIC, _OFFSETS, (_READ,), Feature.DATA_SOURCE),
    _Row(_target, _TOPIC, _CHECKPOINTS, (_READ,), Feature.DATA_SOURCE),
    _Row(_target, _TOPIC, _BEATS, (_READ,), Feature.DATA_SOURCE),
    _Row(_target, _GROUP, _SINK_GROUP, (_READ,), Feature.SINK),
    _Row(_target, _TOPIC, _topics, (_READ,), Feature.SINK),
    _Row(_target, _TOPIC, _DEAD_LETTERS, (_CREATE, _WRITE), Feature.DEAD_LETTERS),
    _Row(_target, _TOPIC, _copies, (_CREATE, _WRITE), Feature.SOURCE),
    _Row(_source, _GROUP, _WORKER_GROUP, (_READ,), Feature.MIRRORMAKER_1),
    _Row(_source, _TOPIC, _topics, (_READ,), Feature.MIRRORMAKER_1),
    _Row(_target, _TOPIC, _copies, (_CREATE, _WRITE), Feature.MIRRORMAKER_1),
)


def by_cluster(
    permissions: Iterable[RequiredPermission],
) -> dict[str, list[RequiredPermission]]:
    """Return the permissions by the alias of the cluster that must grant them, each once."""
    found: dict[str, dict[tuple[object, ...], RequiredPermission]] = {}
    for each in permissions:
        found.setdefault(each.cluster, {}).setdefault(each[:-1], each)
    return {alias: list(of_cluster.values()) for alias, of_cluster in found.items()}


def required_permissions(
    names: FlowNames, features: Collection[Feature]
) -> list[RequiredPermission]:
    """Return what these features need, each permission once, in the order of the table."""
    found: dict[tuple[object, ...], RequiredPermission] = {}
    for row in PERMISSIONS:
        if row.feature in features:
            for each in row.of(names):
                found.setdefault(each[:-1], each)
    return list(found.values())
