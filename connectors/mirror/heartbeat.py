"""MirrorHeartbeatConnector and its task: write heartbeats to the target at a fixed interval.

Every `emit.heartbeats.interval.seconds` the task writes one record to partition 0 of the target's
`heartbeats` topic, with the source alias, the target alias and the time. Mirrored heartbeats topics
show how clusters are connected and how many hops apart they are. The connector ignores `enabled`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.definition import ConfigDef, ConfigProblem
from connect.errors import ConfigError
from connect.log_fields import add_log_fields
from connect.loop import BackgroundLoop
from connect.plugin import AlteredOffset, SourceRecord, SourceTask, TransferTask
from connectors.mirror.background.cluster_loop import STOP_TIMEOUT_S, cluster_loop
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.heartbeat import HEARTBEAT_CONFIG_DEF, HeartbeatConfig
from connectors.mirror.formats import Heartbeat
from connectors.mirror.history.flow_events import FlowConnector
from connectors.mirror.offsets.source_offsets import check_heartbeat_offset
from connectors.mirror.replication_policy import replication_policy
from connectors.mirror.topics.create import create_own_topic
from connectors.mirror.topics.forwarding_admin import forwarding_admin, forwarding_admin_class

__all__ = ["MirrorHeartbeatConnector", "MirrorHeartbeatTask", "heartbeat_record"]

log = logging.getLogger(__name__)

CREATE_TIMEOUT_S = 10.0
"""Timeout of one attempt to create the topic."""


def heartbeat_record(
    source_alias: str, target_alias: str, topic: str, timestamp_ms: int
) -> SourceRecord:
    """Build a heartbeat source record. Its source offset is always 0, because tasks never read it
    back."""
    beat = Heartbeat(source_alias, target_alias, timestamp_ms)
    return SourceRecord(
        source_partition={"sourceClusterAlias": source_alias, "targetClusterAlias": target_alias},
        source_offset={"offset": 0},
        topic=topic,
        partition=0,
        key=beat.key(),
        value=beat.value(),
        timestamp_ms=timestamp_ms,
    )


class MirrorHeartbeatConnector(FlowConnector):
    """Creates the heartbeats topic on its own thread, then runs one MirrorHeartbeatTask."""

    def __init__(self) -> None:
        self._config: HeartbeatConfig | None = None
        self._loop: BackgroundLoop | None = None
        self._topic_tried = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return HEARTBEAT_CONFIG_DEF

    @classmethod
    def validate(cls, config: Mapping[str, str]) -> Sequence[ConfigProblem]:
        try:
            forwarding_admin_class(config)
        except ConfigError as error:
            return [ConfigProblem(error.key or "connector.class", str(error))]
        return []

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Sequence[AlteredOffset]) -> bool:
        """Accept any offsets, because tasks never read them."""
        for partition, offset in offsets:
            if offset is not None:
                check_heartbeat_offset(partition, offset)
        return True

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return MirrorHeartbeatTask

    def start(self, config: Mapping[str, str]) -> None:
        self._config = HeartbeatConfig.from_properties(config)
        add_log_fields(flow=self._config.flow)
        self._loop = cluster_loop(
            f"{self._config.name} of {self._config.flow}",
            self._create_topic,
            None,
            self.context.raise_error,
            on_trouble=self.context.report_trouble,
        )
        self._loop.start()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]] | None:
        if self._config is None or self._config.emit_heartbeats_interval_s is None:
            return []
        # A heartbeat sent earlier might make the broker auto-create the topic without compaction.
        return [dict(self._config.originals)] if self._topic_tried else None

    def stop(self) -> None:
        if self._loop is not None:
            self._loop.stop(STOP_TIMEOUT_S)
            self._loop = None

    def _create_topic(self) -> None:
        config = self._config
        assert config is not None
        create_own_topic(
            forwarding_admin(
                config.originals, client_configs.heartbeats_target_admin(config.originals)
            ),
            replication_policy(config.originals).heartbeats_topic(),
            config.heartbeats_topic_replication_factor,
            "heartbeats.topic.replication.factor",
            CREATE_TIMEOUT_S,
        )
        if not self._topic_tried:
            self._topic_tried = True
            self.context.request_task_reconfiguration()


class MirrorHeartbeatTask(SourceTask):
    """Returns one heartbeat record per interval for the worker to produce."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._stop = threading.Event()
        self._interval_s = 0.0
        self._topic = ""
        self._aliases = ("", "")

    @classmethod
    def transforms_records(cls) -> bool:
        """Return False: the flow's transformations are for copied records only."""
        return False

    def start(self, config: Mapping[str, str]) -> None:
        parsed = HeartbeatConfig.from_properties(config)
        add_log_fields(flow=parsed.flow)
        self._interval_s = parsed.emit_heartbeats_interval_s or 0.0
        self._topic = replication_policy(config).heartbeats_topic()
        self._aliases = (parsed.source_cluster_alias, parsed.target_cluster_alias)

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._stop.wait(self._interval_s):
            return None
        return [heartbeat_record(*self._aliases, self._topic, self._clock.now_ms())]

    def stopping(self) -> None:
        self._stop.set()

    def stop(self) -> None:
        self._stop.set()
