"""MirrorSourceConnector: assigns the partitions of one flow to its tasks.

`TopicRefresh` finds the topics and creates their copies on its own thread. `start` and
`task_configs` run on the connector's thread and only read its last result. There are no tasks until
the first result, which triggers a task reconfiguration.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import Deadline
from connect.config.definition import ConfigDef, ConfigProblem
from connect.errors import ConfigError, ConnectError
from connect.log_fields import add_log_fields
from connect.plugin import AlteredOffset, SourcePartition, SourceTask, TransferTask
from connectors.mirror.background.status_messages import StatusMessages
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.engine import check_copy_session, copies_on_spark
from connectors.mirror.config.former_names import former_names
from connectors.mirror.config.rate_limits import RATE_NAMES
from connectors.mirror.config.source import SOURCE_CONFIG_DEF, SourceConfig, assigned_partitions
from connectors.mirror.config.transforms import transform_problems
from connectors.mirror.filters import config_property_filter
from connectors.mirror.history.database import check_history
from connectors.mirror.history.flow_events import FlowConnector
from connectors.mirror.offsets.reset_start_positions import forget_first_positions
from connectors.mirror.offsets.source_offsets import (
    check_source_offset,
    position_after,
    source_partition,
)
from connectors.mirror.settings.sync import SettingsSync
from connectors.mirror.source.assignment import ByCount, Measured, PartitionAssignment
from connectors.mirror.source.catch_up import PROCESS_CATCH_UP
from connectors.mirror.source.partition_load import LoadWatch
from connectors.mirror.topics.clusters import topic_selector
from connectors.mirror.topics.forwarding_admin import forwarding_admin_class
from connectors.mirror.topics.provenance_topic import release
from connectors.mirror.topics.refresh import TopicRefresh
from connectors.mirror.topics.selection import TopicPartition, encode_partitions
from connectors.spark.properties import worker_properties
from connectors.spark.requirements import SparkMissing, missing_pyspark

__all__ = [
    "MirrorSourceConnector",
    "reads_committed",
    "validate_source",
]

log = logging.getLogger(__name__)

_LOOKS = 10
"""How often loads are read before partitions may move."""


def reads_committed(props: Mapping[str, str]) -> bool:
    """Whether the flow's consumer reads only committed records."""
    return client_configs.source_consumer(props).get("isolation.level") == "read_committed"


def validate_source(props: Mapping[str, str]) -> list[ConfigProblem]:
    """Return errors in the combination of these properties, beyond the checks of single keys in
    `SOURCE_CONFIG_DEF`; empty if there are none."""
    problems: list[ConfigProblem] = []
    if props.get("exactly.once.support") == "required" and not reads_committed(props):
        problems.append(
            ConfigProblem(
                "exactly.once.support",
                "Exactly-once requires a source consumer that reads only committed records: set "
                "consumer.isolation.level=read_committed for the source cluster.",
            )
        )
    transforms = transform_problems(props)
    problems += transforms
    if transforms:
        return problems  # They name the topics that the rest looks at.
    try:
        config = SourceConfig.from_properties(props)
        topic_selector(config)
        config_property_filter(config.originals)
        forwarding_admin_class(config.originals)
        check_history(config.originals)
    except ConfigError as error:
        problems.append(ConfigProblem(error.key or "connector.class", str(error)))
    return problems


def _dealt_out(tasks: Sequence[Mapping[str, str]]) -> list[list[TopicPartition]]:
    """Return the assignment in these task configs; empty if it cannot be read."""
    try:
        return [assigned_partitions(config) for config in tasks]
    except ConfigError as error:
        log.warning(
            "Cannot read the previous assignment; assigning all partitions again: %s", error
        )
        return []


def _key(partition: SourcePartition | None) -> TopicPartition | None:
    """Return the partition of a source offset; None if it is not of a mirrored topic."""
    fields = partition or {}
    topic, number = fields.get("topic"), fields.get("partition")
    return (topic, number) if isinstance(topic, str) and isinstance(number, int) else None


class MirrorSourceConnector(FlowConnector):
    """The source connector of one flow."""

    def __init__(self) -> None:
        self._config: SourceConfig | None = None
        self._refresh: TopicRefresh | None = None
        self._settings: SettingsSync | None = None
        self._assignment: PartitionAssignment = ByCount()
        self._loads: LoadWatch | None = None
        self._threads: OneShotThreads | None = None
        self._looked = False
        """Whether all loads that can be measured are known."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return SOURCE_CONFIG_DEF

    @classmethod
    def validate(cls, config: Mapping[str, str]) -> Sequence[ConfigProblem]:
        return validate_source(config)

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Sequence[AlteredOffset]) -> bool:
        """Validate altered offsets, and delete the start positions that tasks stored for these
        partitions. The worker stores the source offsets."""
        for partition, offset in offsets:
            if offset is not None:
                check_source_offset(partition, offset)
        forget_first_positions(config, [key for each, _ in offsets if (key := _key(each))])
        return True

    @classmethod
    def reset_offsets(cls, config: Mapping[str, str], offsets: Sequence[AlteredOffset]) -> bool:
        """Delete the start positions too, so that partitions without an offset start again."""
        forget_first_positions(config, None)
        return True

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        """Supported if the flow reads only committed records, as in MirrorMaker 2."""
        return reads_committed(config)

    @classmethod
    def task_class_for(
        cls, task_config: Mapping[str, str]
    ) -> type[SourceTask] | type[TransferTask]:
        if copies_on_spark(task_config):
            check_copy_session({**worker_properties(), **task_config})
            if (problem := missing_pyspark()) is not None:
                raise SparkMissing(problem)
            # Import it only here, because PySpark takes memory that workers without it can save.
            from connectors.mirror.spark.copy.task import SparkSourceTask

            return SparkSourceTask
        from connectors.mirror.source.task import MirrorSourceTask

        return MirrorSourceTask

    @classmethod
    def live_keys(cls) -> frozenset[str]:
        return RATE_NAMES

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return self.task_class_for({} if self._config is None else self._config.originals)

    def start(self, config: Mapping[str, str]) -> None:
        self._config = SourceConfig.from_properties(config)
        add_log_fields(flow=self._config.flow)
        for warning in former_names(config):
            log.warning("%s", warning)
        problems = validate_source(config)
        if problems:
            raise ConfigError(problems[0].message, key=problems[0].key)
        if not self._config.enabled:
            log.info("%s is not enabled for this flow", self._config.name)
            self._release(self._config)
            return
        troubles = StatusMessages(self.context.report_trouble)
        self._refresh = TopicRefresh(
            self._config,
            on_change=self._topics_changed,
            on_failure=self.context.raise_error,
            on_trouble=troubles.part("topics"),
            before=[each for task in _dealt_out(self.context.committed_tasks) for each in task],
        )
        self._settings = self._settings_sync(self._config, self._refresh)
        move_every_s = self._config.assignment.move_every_s
        if move_every_s is not None and self._config.mirror_engine == "worker":
            self._loads = self._load_watch(self._config, self._refresh, move_every_s)
            self._loads.start()
        self._refresh.start()
        if self._settings is not None:
            self._settings.start(self.context.metrics)

    def _release(self, config: SourceConfig) -> None:
        """Give up the flow's topics, so that the other direction may begin at once."""

        def run() -> None:
            try:
                release(config, Deadline(config.admin_timeout_ms / 1000))
            except ConnectError as error:
                log.info(
                    "Cannot delete the provenance record of the disabled flow %s: %s; the other "
                    "direction may begin once the record is too old",
                    config.name,
                    error,
                )

        self._threads = OneShotThreads(f"release-{config.name}")
        self._threads.run("release", run)

    def _load_watch(
        self, config: SourceConfig, refresh: TopicRefresh, move_every_s: float
    ) -> LoadWatch:
        dealt_out = _dealt_out(self.context.committed_tasks)
        assignment = self._assignment = Measured(dealt_out, move_every_s)
        alias = config.source_cluster_alias

        def copied(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            keys = [source_partition(alias, each) for each in partitions]
            stored = map(position_after, self.context.stored_offsets(keys))
            pairs = zip(partitions, stored, strict=True)
            return {each: position for each, position in pairs if position is not None}

        def looked() -> None:
            first, self._looked = not self._looked, True
            if assignment.uneven(watch.weights) or first:
                self.context.request_task_reconfiguration()

        watch = LoadWatch(
            f"{alias}->{config.target_cluster_alias}",
            client_configs.source_consumer(config.originals),
            lambda: refresh.partitions,
            copied,
            looked,
            self.context.raise_error,
            look_s=move_every_s / _LOOKS,
        )
        return watch

    def _settings_sync(self, config: SourceConfig, refresh: TopicRefresh) -> SettingsSync | None:
        if config.sync_topic_configs_interval_s is None and (
            config.sync_topic_acls_interval_s is None
        ):
            return None
        return SettingsSync(
            config, refresh, on_fatal=self.context.raise_error, copying=PROCESS_CATCH_UP.copying
        )

    def _topics_changed(self) -> None:
        """Called on the refresh loop's thread."""
        waits = self._refresh is not None and self._waits_for_weights(self._refresh)
        if waits and self._loads is not None:
            # The load watch requests the task reconfiguration after its next measurement.
            self._loads.wake()
        else:
            self.context.request_task_reconfiguration()
        settings = self._settings
        if settings is not None:
            settings.wake()

    def _waits_for_weights(self, refresh: TopicRefresh) -> bool:
        """Whether to measure loads first, so that the first assignment need not change soon
        after."""
        return self._loads is not None and not self._looked and bool(refresh.partitions)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]] | None:
        if self._refresh is None or self._config is None:
            return []
        found = self._refresh.partitions
        if found is None or self._waits_for_weights(self._refresh):
            return None
        if self._config.mirror_engine == "spark":
            max_tasks = 1  # The query of the Spark engine spreads partitions over all executors.
        tasks = self._assignment.deal(found, max_tasks)
        return [
            {
                **self._config.originals,
                "task.assigned.partitions": encode_partitions(assigned),
                "task.index": str(index),
                "task.count": str(len(tasks)),
            }
            for index, assigned in enumerate(tasks)
        ]

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.stop()
            self._threads = None
        if self._loads is not None:
            self._loads.stop()
            self._loads = None
        if self._settings is not None:
            self._settings.stop()
            self._settings = None
        if self._refresh is not None:
            self._refresh.stop()
            self._refresh = None
