"""Queries about the mirroring into a cluster: the Python counterpart of Java's MirrorClient.

A client queries the target cluster of flows. Topic names show the upstream clusters and how many
hops away they are. The checkpoints topics hold the translated offsets of their consumer groups.
Source: KIP-382 and connect-mirror-client 4.3.1 (MirrorClient, RemoteClusterUtils).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Self

from connect.clients.librdkafka.admin import Admin
from connect.clients.wire.bootstrap_probe import need_login
from connect.clock import Deadline
from connect.config.java_regex import TextPattern, literal_regex
from connect.config.security import CLIENT_CONFIG_NAMES
from connect.errors import ConfigError
from connect.protocol.messages import TopicPartition
from connectors.mirror.checkpoints.store import CheckpointReader
from connectors.mirror.formats import Checkpoint
from connectors.mirror.replication_policy import ReplicationPolicy, replication_policy

__all__ = ["MirrorClient", "OffsetAndMetadata", "ancestry", "client_properties", "hops"]


DEFAULT_TIMEOUT_S = 60.0
_LOGIN_S = 5.0


class OffsetAndMetadata(NamedTuple):
    """A translated offset: the next offset to read on this cluster, and the metadata of the group's
    commit on the source."""

    offset: int
    metadata: str = ""


def client_properties(props: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the client properties of a MirrorClient's `admin` or `consumer` client.

    Only connection and security properties count. A property under `<kind>.` overrides the one
    without that prefix. Raises `ConfigError` without bootstrap servers.
    """
    found = {name: value for name, value in props.items() if name in CLIENT_CONFIG_NAMES}
    prefix = f"{kind}."
    for key, value in props.items():
        name = key.removeprefix(prefix)
        if key.startswith(prefix) and name in CLIENT_CONFIG_NAMES:
            found[name] = value
    if not found.get("bootstrap.servers", "").strip():
        raise ConfigError(
            'Missing required configuration "bootstrap.servers" which has no default value.',
            key="bootstrap.servers",
        )
    return {**found, "client.id": f"mirror-client-{kind}"}


def ancestry(policy: ReplicationPolicy, topic: str) -> list[str]:
    """Yield the clusters that a topic was mirrored over, nearest first. Stops at a repeated
    cluster."""
    found: list[str] = []
    upstream: str | None = topic
    while upstream is not None:
        source = policy.topic_source(upstream)
        if source is None or source in found:
            break
        found.append(source)
        upstream = policy.upstream_topic(upstream)
    return found


def hops(policy: ReplicationPolicy, topic: str, alias: str) -> int:
    """Return how many flows a topic passed since `alias`; -1 if it was not mirrored from
    `alias`."""
    over = ancestry(policy, topic)
    return over.index(alias) + 1 if alias in over else -1


class MirrorClient:
    """Queries one cluster. Calls may come from any thread; the owner calls `close`, or uses `with`.

    Every method raises one of `connect.errors` if the cluster does not answer.
    """

    def __init__(self, props: Mapping[str, str], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """`props`: as in Java's MirrorClientConfig: `bootstrap.servers`, `security.protocol`,
        `ssl.*`, `sasl.*`, each also under `admin.` and `consumer.`, and `replication.policy.*`.
        `timeout_s`: the default timeout of a call."""
        self._consumer = client_properties(props, "consumer")
        self._policy = replication_policy(props)
        self._timeout_s = timeout_s
        self._unmet: Mapping[str, str] | None = client_properties(props, "admin")
        self._admin = Admin(self._unmet)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        return self._policy

    def replication_hops(self, upstream_alias: str) -> int:
        """Return the smallest number of flows from that cluster to this one; -1 if there is no
        path."""
        found = [hops(self._policy, topic, upstream_alias) for topic in self.heartbeat_topics()]
        return min((count for count in found if count > 0), default=-1)

    def heartbeat_topics(self) -> set[str]:
        """Return all heartbeats topics on this cluster, including its own."""
        return {topic for topic in self._topics() if self._policy.is_heartbeats_topic(topic)}

    def checkpoint_topics(self) -> set[str]:
        return {topic for topic in self._topics() if self._policy.is_checkpoints_topic(topic)}

    def upstream_clusters(self) -> set[str]:
        """Return every cluster whose heartbeats reach this cluster, over any number of flows."""
        return {
            alias for topic in self.heartbeat_topics() for alias in ancestry(self._policy, topic)
        }

    def remote_topics(self, source: str | None = None) -> set[str]:
        """Return the mirrored topics on this cluster. With `source`, only topics that were copied
        directly from that cluster."""
        return {
            topic
            for topic in self._topics()
            if not self._policy.is_internal_topic(topic)
            and (alias := self._policy.topic_source(topic)) is not None
            and source in (None, alias)
        }

    def hidden_topics(self, topics: Collection[str]) -> set[str]:
        """Return those of these topics that this client may not describe, whether or not they
        exist. The other methods leave such topics out."""
        return self._admin.forbidden_topics(topics, self._timeout_s)

    def remote_consumer_offsets(
        self, group: str, remote_alias: str, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the translated offsets of a group of the cluster `remote_alias`, by topic
        partition on this cluster. Empty for a group without checkpoints.

        Raises `DeadlineExceeded` if the checkpoints could not be read to the end. (Java returns the
        checkpoints that it has read by then.)
        """
        found = self.remote_consumer_offsets_matching(literal_regex(group), remote_alias, timeout_s)
        return found.get(group, {})

    def remote_consumer_offsets_matching(
        self, pattern: TextPattern, remote_alias: str, timeout_s: float | None = None
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Like `remote_consumer_offsets`, for all groups whose whole ID matches. The result is
        keyed by group."""
        return {
            group: {
                key: OffsetAndMetadata(each.downstream_offset, each.metadata)
                for key, each in of_group.items()
            }
            for group, of_group in self.checkpoints(pattern, remote_alias, timeout_s).items()
        }

    def checkpoints(
        self, pattern: TextPattern, remote_alias: str, timeout_s: float | None = None
    ) -> dict[str, dict[TopicPartition, Checkpoint]]:
        """Return the latest checkpoints of all groups whose whole ID matches, by group and
        partition."""
        found: dict[str, dict[TopicPartition, Checkpoint]] = {}

        def take(checkpoint: Checkpoint) -> None:
            of_group = found.setdefault(checkpoint.group, {})
            of_group[checkpoint.topic, checkpoint.partition] = checkpoint

        reader = CheckpointReader(
            self._policy.checkpoints_topic(remote_alias),
            self._consumer,
            take,
            lambda group: pattern.fullmatch(group) is not None,
        )
        reader.run(Deadline(self._timeout_s if timeout_s is None else timeout_s))
        return found

    def _topics(self) -> Iterable[str]:
        if self._unmet is not None:
            need_login(self._unmet, Deadline(min(_LOGIN_S, self._timeout_s)))
            self._unmet = None
        return self._admin.list_topics(self._timeout_s)
