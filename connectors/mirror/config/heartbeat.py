"""The keys of the mirror heartbeat connector and its task, and their parsed values (Kafka
4.3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.config.definition import ConfigDef
from connect.config.types import ConfigType
from connectors.mirror.config.base import (
    BASE_CONFIG_DEF,
    MirrorConfig,
    base_fields,
    interval_s,
    mirror_key,
)

__all__ = ["HEARTBEAT_CONFIG_DEF", "HeartbeatConfig"]

HEARTBEAT_CONFIG_DEF: ConfigDef = BASE_CONFIG_DEF.extended(
    [
        mirror_key(
            "emit.heartbeats.enabled",
            ConfigType.BOOLEAN,
            True,
            "Whether heartbeats are written to the target.",
        ),
        mirror_key(
            "emit.heartbeats.interval.seconds",
            ConfigType.LONG,
            1,
            "Interval between heartbeats, in seconds.",
        ),
        mirror_key(
            "heartbeats.topic.replication.factor",
            ConfigType.SHORT,
            3,
            "Replication factor of the heartbeats topic.",
        ),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatConfig(MirrorConfig):
    """The parsed config of the heartbeat connector and its task."""

    emit_heartbeats_interval_s: float | None
    """Seconds between two heartbeats; None if they are disabled."""
    heartbeats_topic_replication_factor: int

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> HeartbeatConfig:
        """Parse a connector's properties. Raises ConfigError for the first invalid one."""
        parsed = HEARTBEAT_CONFIG_DEF.parse(props)
        return cls(
            **base_fields(parsed),
            emit_heartbeats_interval_s=interval_s(parsed, "emit.heartbeats", zero_allowed=True),
            heartbeats_topic_replication_factor=parsed.integer(
                "heartbeats.topic.replication.factor"
            ),
        )
