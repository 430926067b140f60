"""The typed group settings of a distributed worker's config. `worker_keys` declares the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from connect.clients.groups.member_network import GroupTimeouts
from connect.clients.librdkafka.topic_log import TopicSpec
from connect.config.types import invalid_value
from connect.config.worker_keys import DISTRIBUTED_CONFIG_DEF
from connect.protocol.signatures import KEY_BYTES, SUPPORTED

__all__ = ["DistributedConfig", "ExactlyOnceSupport"]

_STORAGE_OWN = frozenset({"topic", "partitions", "replication.factor", "cleanup.policy"})
_CONFIG_PARTITIONS = 1
_BITS = 8


class ExactlyOnceSupport(Enum):
    """The values of `exactly.once.source.support` (KIP-618)."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"

    @property
    def fences_leaders(self) -> bool:
        """Whether leaders write to the config topic in transactions."""
        return self is not ExactlyOnceSupport.DISABLED


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedConfig:
    """The group settings of one worker. Names that end with `_s` are in seconds."""

    group_id: str
    timeouts: GroupTimeouts
    connect_protocol: str
    exactly_once: ExactlyOnceSupport
    sync_timeout_s: float
    """The time limit of reading the config topic to its end."""
    unsync_backoff_s: float
    """How long a worker stays out of the group after that limit, with the eager protocol."""
    max_delay_ms: int
    """`scheduled.rebalance.max.delay.ms`."""
    key_algorithm: str
    key_bytes: int
    key_ttl_ms: int
    """0 means that keys do not expire."""
    signature_algorithm: str
    verification_algorithms: tuple[str, ...]
    config_topic: TopicSpec
    status_topic: TopicSpec

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> DistributedConfig:
        """Parse the properties. Raises the first ConfigError."""
        parsed = DISTRIBUTED_CONFIG_DEF.parse(props)
        algorithm = _known(
            "inter.worker.key.generation.algorithm",
            parsed.string("inter.worker.key.generation.algorithm"),
        )
        signature = _known(
            "inter.worker.signature.algorithm", parsed.string("inter.worker.signature.algorithm")
        )
        accepted = tuple(
            _known("inter.worker.verification.algorithms", name)
            for name in parsed.strings("inter.worker.verification.algorithms")
        )
        if signature not in accepted:
            raise invalid_value(
                "inter.worker.signature.algorithm",
                signature,
                "signature algorithm must be present in inter.worker.verification.algorithms list",
            )
        bits = parsed.optional_integer("inter.worker.key.size")
        return cls(
            group_id=parsed.string("group.id"),
            timeouts=GroupTimeouts(
                session_ms=parsed.integer("session.timeout.ms"),
                rebalance_ms=parsed.integer("rebalance.timeout.ms"),
                heartbeat_ms=parsed.integer("heartbeat.interval.ms"),
            ),
            connect_protocol=parsed.string("connect.protocol").lower(),
            exactly_once=ExactlyOnceSupport(parsed.string("exactly.once.source.support").lower()),
            sync_timeout_s=parsed.integer("worker.sync.timeout.ms") / 1000,
            unsync_backoff_s=parsed.integer("worker.unsync.backoff.ms") / 1000,
            max_delay_ms=parsed.integer("scheduled.rebalance.max.delay.ms"),
            key_algorithm=algorithm,
            key_bytes=KEY_BYTES[algorithm] if bits is None else _key_bytes(bits),
            key_ttl_ms=parsed.integer("inter.worker.key.ttl.ms"),
            signature_algorithm=signature,
            verification_algorithms=accepted,
            config_topic=TopicSpec(
                parsed.string("config.storage.topic"),
                _CONFIG_PARTITIONS,
                parsed.integer("config.storage.replication.factor"),
                _extra_configs(props, "config.storage."),
            ),
            status_topic=TopicSpec(
                parsed.string("status.storage.topic"),
                parsed.integer("status.storage.partitions"),
                parsed.integer("status.storage.replication.factor"),
                _extra_configs(props, "status.storage."),
            ),
        )


def _known(key: str, algorithm: str) -> str:
    if algorithm not in SUPPORTED:
        raise invalid_value(key, algorithm, f"use one of {', '.join(sorted(SUPPORTED))}")
    return algorithm


def _key_bytes(bits: int) -> int:
    """Return the key size in bytes as Java's HMAC key generators do: at least 40 bits, rounded
    up.
    """
    if bits < 40:
        raise invalid_value("inter.worker.key.size", bits, "a key has at least 40 bits")
    return (bits + _BITS - 1) // _BITS


def _extra_configs(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the extra configs of a new internal topic, without cleanup policy and partitions."""
    named = {key[len(prefix) :]: value for key, value in props.items() if key.startswith(prefix)}
    return {key: value for key, value in named.items() if key and key not in _STORAGE_OWN}
