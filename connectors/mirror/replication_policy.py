"""Replication policies: how topics are named on the target, and which source a name shows.

A policy is pure: it knows only names and never contacts a cluster. All threads share one instance.
Source: KIP-382 and KIP-690. The tables in `tests/unit/connectors/mirror/test_replication_policy.py`
are results of Kafka 4.3.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from connectors.mirror.config.clients import Side, offset_syncs_side
from connectors.mirror.load_class import JAVA_PACKAGE, load_class

__all__ = [
    "DefaultReplicationPolicy",
    "IdentityReplicationPolicy",
    "OffsetTopics",
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


class ReplicationPolicy(ABC):
    """Names the topics on the target. A custom policy subclasses this, takes the properties in its
    constructor, and implements the three abstract methods."""

    def __init__(self, props: Mapping[str, str] | None = None) -> None:
        """`props`: the connector's (or client's) flat Java properties."""
        self.props: Mapping[str, str] = dict(props or {})

    @abstractmethod
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the target's name of `topic` when it is copied from `source_alias`."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that `topic` was copied from; None for a topic that is
        not a copy."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of `topic` on the cluster that it was copied from; None for a topic that
        is not a copy."""

    def original_topic(self, topic: str) -> str:
        """Return the name of `topic` on its first cluster, over any number of hops."""
        seen = {topic}
        while (upstream := self.upstream_topic(topic)) is not None and upstream not in seen:
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


def is_cycle(policy: ReplicationPolicy, topic: str, target_alias: str) -> bool:
    """Whether `topic` came, over any number of hops, from the cluster that it would be copied
    to."""
    seen = {topic}
    while (source := policy.topic_source(topic)) is not None:
        if source == target_alias:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream in seen:
            return False
        topic = upstream
        seen.add(topic)
    return False


_BUILT_IN: Mapping[str, type[ReplicationPolicy]] = {
    f"{JAVA_PACKAGE}DefaultReplicationPolicy": DefaultReplicationPolicy,
    f"{JAVA_PACKAGE}IdentityReplicationPolicy": IdentityReplicationPolicy,
}


def replication_policy(props: Mapping[str, str]) -> ReplicationPolicy:
    """Create the policy that `replication.policy.class` names: the Java class name of a built-in
    policy, or the dotted path of a Python class. Raises `ConfigError` for any other value."""
    name = props.get(POLICY_CLASS_KEY, f"{JAVA_PACKAGE}DefaultReplicationPolicy")
    # mypy rejects an abstract class as an argument even where only its subclasses are returned.
    return load_class(POLICY_CLASS_KEY, name, _BUILT_IN, ReplicationPolicy)(props)  # type: ignore[type-abstract]


class OffsetTopics(NamedTuple):
    """A flow's offset-syncs topic and, beside it, the topic of its offset map. `side`: the cluster
    that hosts both."""

    side: Side
    syncs: str
    map: str


def offset_topics(props: Mapping[str, str]) -> OffsetTopics:
    """Those of the flow with these connector properties. Both are named after the cluster that
    does not host them."""
    policy, side = replication_policy(props), offset_syncs_side(props)
    other = (
        props.get("target.cluster.alias", "target") if side == "source" else props[SOURCE_ALIAS_KEY]
    )
    alias = other.strip()
    return OffsetTopics(side, policy.offset_syncs_topic(alias), policy.offset_map_topic(alias))
