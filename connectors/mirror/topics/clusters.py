"""The clusters of a flow: their admin clients, the first contact, and which topics are selected and
created there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.clients.librdkafka.admin import Admin
from connect.clients.wire.bootstrap_probe import why_unreachable
from connect.clock import Deadline
from connect.errors import BrokerUnavailable, DeadlineExceeded, RetriableError
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.filters import topic_filter
from connectors.mirror.replication_policy import offset_topics, replication_policy
from connectors.mirror.topics.selection import TopicSelector

__all__ = [
    "CONTACT_TIMEOUT_S",
    "GRACE_S",
    "Clusters",
    "contact",
    "internal_topics",
    "topic_selector",
]

CONTACT_TIMEOUT_S = 10.0
"""Timeout of the first contact. After it the cluster counts as unreachable, and the contact is
retried."""

_CAUSE_S = 5.0
"""Maximum time to look for the cause of a failed contact."""

GRACE_S = 10.0
"""Added to a call's own timeout, so that the call's own error is reported."""


def topic_selector(config: SourceConfig, *, same_cluster: bool = False) -> TopicSelector:
    """Return the topic selector of this config. Raises `ConfigError`."""
    return TopicSelector(
        policy=replication_policy(config.originals),
        topics=topic_filter(config.originals),
        source_alias=config.source_cluster_alias,
        target_alias=config.target_cluster_alias,
        replicate_heartbeats=config.heartbeats_replication_enabled,
        same_cluster=same_cluster,
    )


def internal_topics(config: SourceConfig) -> dict[str, int]:
    """Replication factors by name of the offset-syncs topic and of the offset map beside it, if
    they are enabled."""
    topics = offset_topics(config.originals)
    factors: dict[str, int] = {}
    if config.emit_offset_syncs_enabled:
        factors[topics.syncs] = config.offset_syncs_topic_replication_factor
    if config.mirror_offset_map_enabled:
        factors[topics.map] = config.offset_map_topic_replication_factor
    return factors


def contact(admin: Admin, alias: str, props: Mapping[str, str], timeout: float) -> str:
    """Return the ID of the cluster `alias`. Raises an error that names the cluster, its addresses
    and the cause, such as a refused connection or a wrong password, as soon as it is known."""
    servers = props.get("bootstrap.servers", "no address (bootstrap.servers is not set)")
    # librdkafka reports a wrong password, protocol or address as a timeout, and only after it.
    cause = why_unreachable(props, Deadline(min(_CAUSE_S, timeout)))
    if cause is not None and not isinstance(cause, DeadlineExceeded):
        raise BrokerUnavailable(f"Cannot reach cluster {alias} at {servers}: {cause}") from cause
    try:
        return admin.cluster_id(timeout)
    except RetriableError as error:
        raise BrokerUnavailable(
            f"Cannot reach cluster {alias} at {servers}: {cause or error}"
        ) from error


@dataclass(frozen=True, slots=True)
class Clusters:
    """The admin clients of both clusters, and the flow's topic selector. May be used from any
    thread. The loop closes them."""

    source: Admin
    target: Admin
    selector: TopicSelector
    source_id: str
    target_id: str

    def close(self) -> None:
        self.source.close()
        self.target.close()
