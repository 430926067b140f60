"""Replication policies: how topics are named on the target, and which source a name shows.

A policy is pure: it knows only names and never contacts a cluster. All threads share one instance.
Source: KIP-382 and KIP-690. The tables in `tests/unit/connectors/mirror/test_replication_policy.py`
are results of Kafka 4.3.1.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from connect.config.properties import read_properties
from connect.config.types import invalid_value
from connect.data.transforms.chain import TransformChain
from connect.errors import ConfigError
from connectors.mirror.config.base import MAPPING_FILE_KEY
from connectors.mirror.config.clients import Side, offset_syncs_side
from connectors.mirror.load_class import JAVA_PACKAGE, load_class
from connectors.mirror.topic_routes import flow_chain, transformed_by_spark

__all__ = [
    "DefaultReplicationPolicy",
    "IdentityReplicationPolicy",
    "OffsetTopics",
    "RenamingReplicationPolicy",
    "ReplicationPolicy",
    "is_cycle",
    "offset_topics",
    "replication_policy",
]

POLICY_CLASS_KEY = "replication.policy.class"
SEPARATOR_KEY = "replication.policy.separator"
INTERNAL_SEPARATOR_KEY = "replication.policy.internal.topic.separator.enabled"
SOURCE_ALIAS_KEY = "source.cluster.alias"
HEARTBEATS_TOPIC = "heartbeats"
PREFIX_KEY, SUFFIX_KEY = "replication.policy.prefix", "replication.policy.suffix"
REMOVED_PREFIX_KEY = "replication.policy.prefix.remove"
REMOVED_SUFFIX_KEY = "replication.policy.suffix.remove"

_MOST_HOPS = 250
"""Names have at most 249 characters, so a custom policy that finds more hops never ends."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LEGAL_PART = re.compile(r"[a-zA-Z0-9._-]*")


class ReplicationPolicy(ABC):
    """Names the topics on the target. A custom policy subclasses this, takes the properties in its
    constructor, and implements the three abstract methods."""

    chain: TransformChain | None = None
    """The flow's transformations, which may rename copies and change their records, for example
    with RegexRouter. The source of a topic that they renamed cannot be told from its name."""

    by_spark: Callable[[str], bool] | None = None
    """Whether the flow's `mirror.transform` gets the records of a topic of the source; None: it has
    none."""

    def __init__(self, props: Mapping[str, str] | None = None) -> None:
        """`props`: the connector's (or client's) flat Java properties."""
        self.props: Mapping[str, str] = dict(props or {})

    @abstractmethod
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the target's name of `topic` when it is copied from `source_alias`, before the
        flow's transformations: use `remote_topic`."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that `topic` was copied from; None for a topic that is
        not a copy."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of `topic` on the cluster that it was copied from; None for a topic that
        is not a copy."""

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the target's name of `topic` when it is copied from `source_alias`. Heartbeats
        topics are the mirror's own and keep the policy's names."""
        named = self.format_remote_topic(source_alias, topic)
        if self.chain is None or self.is_heartbeats_topic(topic):
            return named
        return self.chain.route(named).topic

    def changes_records(self, source_alias: str, topic: str) -> bool:
        """Whether transformations may change or drop records of this topic of the source."""
        return self.changed_by_spark(topic) or self.changed_by_chain(source_alias, topic)

    def changed_by_chain(self, source_alias: str, topic: str) -> bool:
        """Whether the flow's `transforms` may change or drop records of this topic."""
        if self.chain is None or self.is_heartbeats_topic(topic):
            return False
        return bool(self.chain.route(self.format_remote_topic(source_alias, topic)).chain)

    def changed_by_spark(self, topic: str) -> bool:
        """Whether the flow's `mirror.transform` may change or drop records of this topic."""
        if self.by_spark is None or self.is_heartbeats_topic(topic):
            return False
        return self.by_spark(topic)

    def original_topic(self, topic: str) -> str:
        """Return the name of `topic` on its first cluster, over any number of hops."""
        seen = {topic}
        while (upstream := self.upstream_topic(topic)) is not None and upstream not in seen:
            if len(seen) == _MOST_HOPS:
                break
            topic = upstream
            seen.add(topic)
        return topic

    def heartbeats_topic(self) -> str:
        return HEARTBEATS_TOPIC

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the name of the offset-syncs topic. `alias`: the cluster that does not host it."""
        return f"mm2-offset-syncs.{alias}.internal"

    def offset_map_topic(self, alias: str) -> str:
        """Return the name of the offset map topic, which is stored beside the offset-syncs topic.
        `alias`: the cluster that does not host it."""
        return f"mm2-offset-map.{alias}.internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return the name of the checkpoints topic. `alias`: the cluster of the groups."""
        return f"{alias}.checkpoints.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(".checkpoints.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Whether the mirror stores its own state in `topic`."""
        own = topic.startswith("mm2") and topic.endswith(".internal")
        return own or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Whether `topic` is never mirrored: internal to the mirror, internal to Kafka, or
        hidden."""
        return self.is_mm2_internal_topic(topic) or topic.startswith(("__", "."))


class DefaultReplicationPolicy(ReplicationPolicy):
    """Names copies `<source alias><separator><topic>`."""

    def __init__(self, props: Mapping[str, str] | None = None) -> None:
        super().__init__(props)
        configured = self.props.get(SEPARATOR_KEY)
        self.separator = "." if configured is None else configured
        self._internal_separator = self.separator
        if configured is not None:
            enabled = self.props.get(INTERNAL_SEPARATOR_KEY, "true")
            if enabled.strip().lower() != "true":
                self._internal_separator = "."
        self._internal_suffix = f"{self._internal_separator}internal"
        self._checkpoints_suffix = f"{self._internal_separator}checkpoints{self._internal_suffix}"

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        # Java's split drops trailing empty parts, so "t." and ".." have no source.
        parts = topic.split(self.separator) if self.separator else list(topic)
        while parts and not parts[-1]:
            parts.pop()
        return parts[0] if len(parts) >= 2 else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def offset_syncs_topic(self, alias: str) -> str:
        return f"mm2-offset-syncs{self._internal_separator}{alias}{self._internal_suffix}"

    def offset_map_topic(self, alias: str) -> str:
        return f"mm2-offset-map{self._internal_separator}{alias}{self._internal_suffix}"

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self._checkpoints_suffix}"

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self._checkpoints_suffix)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        own = topic.startswith("mm2") and topic.endswith(self._internal_suffix)
        return own or self.is_checkpoints_topic(topic)


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Keeps the names of copied topics, except heartbeats, which are renamed as by the default
    policy.

    A name does not show the source cluster. For every ordinary topic, `topic_source` returns the
    configured `source.cluster.alias`. Only heartbeats can be checked for cycles.
    """

    def __init__(self, props: Mapping[str, str] | None = None) -> None:
        super().__init__(props)
        self._source_alias = self.props.get(SOURCE_ALIAS_KEY)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        if self._looks_like_heartbeats(topic):
            return super().format_remote_topic(source_alias, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        if self._looks_like_heartbeats(topic):
            return super().topic_source(topic)
        return self._source_alias

    def upstream_topic(self, topic: str) -> str | None:
        if self._looks_like_heartbeats(topic):
            return super().upstream_topic(topic)
        return topic

    def _looks_like_heartbeats(self, topic: str) -> bool:
        return topic.endswith(self.heartbeats_topic())


class RenamingReplicationPolicy(IdentityReplicationPolicy):
    """Renames by configuration: takes a prefix or suffix away, then adds others. Topics of a file
    are named as the file says. Heartbeats are named as by the default policy.

    A topic without the prefix (or suffix) to take away is only added to. The file holds Java
    properties, `<source topic> = <target topic>`, and is read once.
    """

    def __init__(self, props: Mapping[str, str] | None = None) -> None:
        super().__init__(props)
        self._prefix, self._suffix = self._part(PREFIX_KEY), self._part(SUFFIX_KEY)
        self._removed_prefix = self._part(REMOVED_PREFIX_KEY)
        self._removed_suffix = self._part(REMOVED_SUFFIX_KEY)
        self._mapped = _read_mapping(self.props.get(MAPPING_FILE_KEY, "").strip())
        self._sources = {target: source for source, target in self._mapped.items()}

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        if self._looks_like_heartbeats(topic):
            return super().format_remote_topic(source_alias, topic)
        return self._renamed(topic)

    def topic_source(self, topic: str) -> str | None:
        if self._looks_like_heartbeats(topic):
            return super().topic_source(topic)
        return None if self._former(topic) is None else self._source_alias

    def upstream_topic(self, topic: str) -> str | None:
        if self._looks_like_heartbeats(topic):
            return super().upstream_topic(topic)
        return self._former(topic)

    def _renamed(self, topic: str) -> str:
        mapped = self._mapped.get(topic)
        if mapped is not None:
            return mapped
        core = topic.removeprefix(self._removed_prefix).removesuffix(self._removed_suffix)
        return f"{self._prefix}{core or topic}{self._suffix}"

    def _former(self, topic: str) -> str | None:
        """Return the source's name of a copy; None if no topic would get this name."""
        mapped = self._sources.get(topic)
        if mapped is not None:
            return mapped
        if not (topic.startswith(self._prefix) and topic.endswith(self._suffix)):
            return None
        core = topic[len(self._prefix) : len(topic) - len(self._suffix)]
        taken = self._removed_prefix, self._removed_suffix
        if (taken[0] and core.startswith(taken[0])) or (taken[1] and core.endswith(taken[1])):
            return None  # It would have been taken away.
        # A topic that never had the prefix to take away has the same name as one that had it.
        candidates = (f"{self._removed_prefix}{core}{self._removed_suffix}", core)
        return next((each for each in candidates if core and self._renamed(each) == topic), None)

    def _part(self, key: str) -> str:
        value = self.props.get(key, "").strip()
        if _LEGAL_PART.fullmatch(value) is None:
            raise invalid_value(
                key, value, "topic names have only letters, digits, dots, hyphens and underscores"
            )
        return value


def _read_mapping(path: str) -> dict[str, str]:
    """Read the target's name of each source topic in a file. Raises `ConfigError` for a file that
    cannot be read, an illegal name, or a name that two topics would have."""
    if not path:
        return {}
    mapped: dict[str, str] = {}
    sources: dict[str, str] = {}
    try:
        entries = read_properties(Path(path))
    except ConfigError as error:
        raise _wrong_mapping(path, str(error)) from error
    for entry in entries:
        source, target = entry.key, entry.value.strip()
        if _LEGAL_NAME.fullmatch(target) is None or target in (".", ".."):
            # Without the value, because a connector's config may name any file.
            raise _wrong_mapping(path, f"line {entry.line} has no legal topic name")
        if sources.setdefault(target, source) != source:
            what = f"line {entry.line} names a topic of the target that an earlier line has named"
            raise _wrong_mapping(path, what)
        mapped[source] = target
    return mapped


def _wrong_mapping(path: str, reason: str) -> ConfigError:
    return invalid_value(
        MAPPING_FILE_KEY, path, f"{reason}. The file holds lines <source topic> = <target topic>"
    )


def is_cycle(policy: ReplicationPolicy, topic: str, target_alias: str) -> bool:
    """Whether `topic` came, over any number of hops, from the cluster that it would be copied
    to."""
    seen = {topic}
    while (source := policy.topic_source(topic)) is not None:
        if source == target_alias:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream in seen or len(seen) == _MOST_HOPS:
            return False
        topic = upstream
        seen.add(topic)
    return False


_BUILT_IN: Mapping[str, type[ReplicationPolicy]] = {
    f"{JAVA_PACKAGE}DefaultReplicationPolicy": DefaultReplicationPolicy,
    f"{JAVA_PACKAGE}IdentityReplicationPolicy": IdentityReplicationPolicy,
    "RenamingReplicationPolicy": RenamingReplicationPolicy,
}

ENTRY_POINTS = "kafka_connect_mirror.replication_policies"
"""The group of entry points in which packages name their policies."""


def replication_policy(props: Mapping[str, str]) -> ReplicationPolicy:
    """Create the policy that `replication.policy.class` names: the name of a built-in policy (as in
    Java for Java's), an entry point, or the path of a Python class. The properties' `transforms`
    are its `chain`, `mirror.transform` is its `by_spark`. Raises `ConfigError` for any other
    value."""
    name = props.get(POLICY_CLASS_KEY, f"{JAVA_PACKAGE}DefaultReplicationPolicy")
    make: Callable[[Mapping[str, str]], ReplicationPolicy] = load_class(
        POLICY_CLASS_KEY,
        name,
        _BUILT_IN,
        ReplicationPolicy,
        ENTRY_POINTS,
    )
    policy = make(props)
    policy.chain = flow_chain(props)
    policy.by_spark = transformed_by_spark(props)
    return policy


class OffsetTopics(NamedTuple):
    """A flow's offset-syncs topic and, beside it, the topic of its offset map. `side`: the cluster
    that hosts both."""

    side: Side
    syncs: str
    map: str


def offset_topics(props: Mapping[str, str]) -> OffsetTopics:
    """Return the topics of the flow with these connector properties. Both are named after the
    cluster that does not host them."""
    policy, side = replication_policy(props), offset_syncs_side(props)
    other = (
        props.get("target.cluster.alias", "target") if side == "source" else props[SOURCE_ALIAS_KEY]
    )
    alias = other.strip()
    return OffsetTopics(side, policy.offset_syncs_topic(alias), policy.offset_map_topic(alias))
