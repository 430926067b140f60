"""The keys of the mirror source connector and its tasks, and their parsed values.

Most are MirrorMaker 2's (Kafka 4.3.1). `_OUR_KEYS`, `assignment`, `loss_policies` and `rate_limits`
declare additional ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from connect.config.definition import REQUIRED, ConfigDef, ConfigKey, Importance, ParsedConfig
from connect.config.types import ConfigType, SecretStr, invalid_value
from connect.config.validators import Range, ValidList
from connect.errors import ConfigError
from connectors.mirror.config.assignment import ASSIGNMENT_KEYS, AssignmentConfig
from connectors.mirror.config.base import (
    BASE_CONFIG_DEF,
    CONSUMER_POLL_TIMEOUT_MS,
    JAVA_PACKAGE,
    METRIC_NAMES_FORMATS,
    OFFSET_SYNCS_TOPIC_LOCATION,
    SPARK_IDLE_TIMEOUT,
    SPARK_START_DELAY,
    TASK_INDEX,
    TOPIC_FILTER_CLASS,
    MirrorConfig,
    base_fields,
    interval_s,
    mirror_key,
)
from connectors.mirror.config.engine import ENGINE, copies_on_spark
from connectors.mirror.config.former_names import with_new_names
from connectors.mirror.config.history_url import flow_history_url
from connectors.mirror.config.loss_policies import LOSS_KEYS, RETENTION_KEY, URL_KEY, loss_policies
from connectors.mirror.config.losses import LossPolicies
from connectors.mirror.config.rate_limits import RATE_KEYS, flow_limits
from connectors.mirror.config.rates import FlowLimits
from connectors.mirror.config.transforms import TRANSFORM_KEYS

__all__ = [
    "DEFAULT_COPY_BUFFER_BYTES",
    "SOURCE_CONFIG_DEF",
    "SOURCE_TASK_CONFIG_DEF",
    "SourceConfig",
    "SourceTaskConfig",
    "assigned_partitions",
]

# The names as in Kafka 4.3.1. Two of them are names of broker configs, so the topic configs
# message.timestamp.{before,after}.max.ms are copied.
CONFIG_PROPERTIES_EXCLUDE = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
)

# A fetch requests an eighth of it. Twice as much copied no faster and cost more CPU per record.
DEFAULT_COPY_BUFFER_BYTES = 24 * 1024 * 1024
# The default grows to this on a link of 100 ms.
_FAR_COPY_BUFFER_BYTES = 64 * 1024 * 1024
# Large enough to make the cost per batch negligible, and small against the smallest usual
# message.max.bytes (1 MiB).
DEFAULT_MERGE_BATCH_BYTES = 256 * 1024

# A task can stop within this time without copying records twice. It is also the time that is copied
# again after an executor is lost. Half of it costs some percent more CPU. Twice as much does not
# end within task.shutdown.graceful.timeout.ms (5 s).
DEFAULT_SPARK_BATCH_MS = 2000

_DISCOVERY_KEYS = (
    mirror_key(
        "topics",
        ConfigType.LIST,
        (".*",),
        "Topics to mirror: names and Java regular expressions, matched against the whole name. "
        "With an empty list only heartbeats are mirrored.",
        Importance.HIGH,
    ),
    mirror_key(
        "topics.exclude",
        ConfigType.LIST,
        (r"mm2.*\.internal", r".*\.replica", "__.*"),
        "Topics not to mirror; takes precedence over `topics`.",
        Importance.HIGH,
    ),
    TOPIC_FILTER_CLASS,
    mirror_key(
        "config.properties.exclude",
        ConfigType.LIST,
        CONFIG_PROPERTIES_EXCLUDE,
        "Topic configs that are not copied: names and regular expressions.",
        Importance.HIGH,
    ),
    mirror_key(
        "config.property.filter.class",
        ConfigType.CLASS,
        JAVA_PACKAGE + "DefaultConfigPropertyFilter",
        "Class that selects the topic configs to copy.",
    ),
    mirror_key(
        "refresh.topics.enabled",
        ConfigType.BOOLEAN,
        True,
        "Whether to look for new topics and partitions while running.",
    ),
    mirror_key(
        "refresh.topics.interval.seconds",
        ConfigType.LONG,
        600,
        "Interval of the topic refresh, in seconds.",
    ),
    mirror_key(
        "heartbeats.replication.enabled",
        ConfigType.BOOLEAN,
        True,
        "Whether to mirror heartbeats topics even if `topics` does not match them.",
    ),
)

_TOPIC_KEYS = (
    mirror_key(
        "sync.topic.configs.enabled",
        ConfigType.BOOLEAN,
        True,
        "Whether to keep topic configs on the target in sync while running.",
    ),
    mirror_key(
        "sync.topic.configs.interval.seconds",
        ConfigType.LONG,
        600,
        "Interval of the config sync, in seconds.",
    ),
    mirror_key(
        "sync.topic.acls.enabled",
        ConfigType.BOOLEAN,
        True,
        "Whether to copy read ACLs of topics while running.",
    ),
    mirror_key(
        "sync.topic.acls.interval.seconds",
        ConfigType.LONG,
        600,
        "Interval of the ACL sync, in seconds.",
    ),
    mirror_key(
        "replication.factor",
        ConfigType.INT,
        2,
        "Replication factor of topics that are created on the target; -1: the broker's default.",
    ),
)

_OFFSET_KEYS = (
    CONSUMER_POLL_TIMEOUT_MS,
    mirror_key(
        "offset-syncs.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "Replication factor of the offset-syncs topic.",
    ),
    OFFSET_SYNCS_TOPIC_LOCATION,
    mirror_key(
        "offset.lag.max",
        ConfigType.LONG,
        100,
        "Maximum number of records between two entries in the offset-syncs topic.",
    ),
    mirror_key(
        "emit.offset-syncs.enabled",
        ConfigType.BOOLEAN,
        True,
        "Whether to write offset syncs. Without them, consumer groups cannot be translated.",
    ),
    METRIC_NAMES_FORMATS,
)

_OUR_KEYS = (
    *ASSIGNMENT_KEYS,
    ENGINE,
    ConfigKey(
        "mirror.spark.batch.ms",
        ConfigType.LONG,
        DEFAULT_SPARK_BATCH_MS,
        Range(100),
        Importance.LOW,
        "With Spark as the engine: how long a Spark task copies at most, in milliseconds, before "
        "it reports the copied ranges. Not a key of MirrorMaker 2.",
    ),
    ConfigKey(
        "mirror.copy.buffer.bytes",
        ConfigType.LONG,
        DEFAULT_COPY_BUFFER_BYTES,
        Range(1024 * 1024),
        Importance.MEDIUM,
        "Maximum memory, in bytes, for fetched records that are not acknowledged yet. The tasks of "
        "a process share it; of different values the largest applies to all of them together. The "
        "default grows up to 64 MiB if the round trip to the source is long. Not a key of "
        "MirrorMaker 2.",
    ),
    ConfigKey(
        "mirror.copy.merge.batch.bytes",
        ConfigType.INT,
        DEFAULT_MERGE_BATCH_BYTES,
        Range(0),
        Importance.LOW,
        "Consecutive tiny batches are merged up to this size in bytes; 0: no merging. Not a key "
        "of MirrorMaker 2.",
    ),
    mirror_key(
        "mirror.offset.map.enabled",
        ConfigType.BOOLEAN,
        True,
        "Whether to write the exact offset map, beside the offset-syncs topic. Not a key of "
        "MirrorMaker 2.",
    ),
    mirror_key(
        "offset-map.topic.replication.factor",
        ConfigType.SHORT,
        None,
        "Replication factor of the offset map's topic; the default is that of the offset-syncs "
        "topic. Not a key of MirrorMaker 2.",
    ),
    mirror_key(
        "mirror.provenance.enabled",
        ConfigType.BOOLEAN,
        True,
        "Whether to write to mm2-provenance.internal on the target where its topics came from, and "
        "to copy no topic that came from the target itself. Without it, loops are only found by "
        "names. Not a key of MirrorMaker 2.",
    ),
    *TRANSFORM_KEYS,
    SPARK_IDLE_TIMEOUT,
    SPARK_START_DELAY,
)

SOURCE_CONFIG_DEF: ConfigDef = BASE_CONFIG_DEF.extended(
    [*_DISCOVERY_KEYS, *_TOPIC_KEYS, *_OFFSET_KEYS, *_OUR_KEYS, *RATE_KEYS, *LOSS_KEYS]
)

SOURCE_TASK_CONFIG_DEF: ConfigDef = SOURCE_CONFIG_DEF.extended(
    [
        ConfigKey(
            "task.assigned.partitions",
            ConfigType.LIST,
            REQUIRED,
            ValidList(allow_empty=False),
            Importance.LOW,
            "The partitions assigned to the task, as `topic-partition`.",
            internal=True,
        ),
        TASK_INDEX,
        ConfigKey(
            "task.count",
            ConfigType.INT,
            1,
            Range(1),
            Importance.LOW,
            "Number of tasks of the connector.",
            internal=True,
        ),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig(MirrorConfig):
    """The parsed config of the source connector. `..._interval_s`: seconds; None if disabled."""

    refresh_topics_interval_s: float | None
    sync_topic_configs_interval_s: float | None
    sync_topic_acls_interval_s: float | None
    replication_factor: int
    offset_syncs_topic_replication_factor: int
    offset_lag_max: int
    emit_offset_syncs_enabled: bool
    heartbeats_replication_enabled: bool
    mirror_engine: Literal["worker", "spark"]
    assignment: AssignmentConfig
    mirror_spark_batch_s: float
    mirror_copy_buffer_bytes: int
    mirror_copy_merge_batch_bytes: int
    mirror_offset_map_enabled: bool
    mirror_provenance_enabled: bool
    offset_map_topic_replication_factor: int
    limits: FlowLimits
    losses: LossPolicies
    mirror_quarantine_topic: str | None
    mirror_history_url: SecretStr
    mirror_history_retention_days: int

    @property
    def far_buffer_bytes(self) -> int:
        """Return the memory limit to use if the round trip is long. An explicit value is kept."""
        given = self.mirror_copy_buffer_bytes
        return _FAR_COPY_BUFFER_BYTES if given == DEFAULT_COPY_BUFFER_BYTES else given

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> SourceConfig:
        """Parse a connector's properties. Raises ConfigError for the first invalid one."""
        return _source_config(SOURCE_CONFIG_DEF.parse(with_new_names(props)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskConfig:
    """The parsed config of one source task: the connector's, and the task's assignment."""

    connector: SourceConfig
    task_assigned_partitions: tuple[tuple[str, int], ...]
    """(source topic, partition)."""
    task_index: str | None
    task_count: int

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> SourceTaskConfig:
        """Parse a task's properties. Raises ConfigError for the first invalid one."""
        parsed = SOURCE_TASK_CONFIG_DEF.parse(props)
        return cls(
            connector=_source_config(parsed),
            task_assigned_partitions=tuple(
                _topic_partition(element) for element in parsed.strings("task.assigned.partitions")
            ),
            task_index=parsed.optional_string("task.index"),
            task_count=parsed.integer("task.count"),
        )


def _source_config(parsed: ParsedConfig) -> SourceConfig:
    syncs_factor = parsed.integer("offset-syncs.topic.replication.factor")
    map_factor = parsed.optional_integer("offset-map.topic.replication.factor")
    _check_offset_syncs(parsed)
    return SourceConfig(
        **base_fields(parsed),
        refresh_topics_interval_s=interval_s(parsed, "refresh.topics"),
        sync_topic_configs_interval_s=interval_s(parsed, "sync.topic.configs"),
        sync_topic_acls_interval_s=interval_s(parsed, "sync.topic.acls"),
        replication_factor=parsed.integer("replication.factor"),
        offset_syncs_topic_replication_factor=syncs_factor,
        offset_lag_max=parsed.integer("offset.lag.max"),
        emit_offset_syncs_enabled=parsed.boolean("emit.offset-syncs.enabled"),
        heartbeats_replication_enabled=parsed.boolean("heartbeats.replication.enabled"),
        mirror_engine="spark" if copies_on_spark(parsed.originals) else "worker",
        assignment=AssignmentConfig.of(parsed),
        mirror_spark_batch_s=parsed.integer("mirror.spark.batch.ms") / 1000,
        mirror_copy_buffer_bytes=parsed.integer("mirror.copy.buffer.bytes"),
        mirror_copy_merge_batch_bytes=parsed.integer("mirror.copy.merge.batch.bytes"),
        mirror_offset_map_enabled=parsed.boolean("mirror.offset.map.enabled"),
        mirror_provenance_enabled=parsed.boolean("mirror.provenance.enabled"),
        offset_map_topic_replication_factor=syncs_factor if map_factor is None else map_factor,
        limits=flow_limits(parsed),
        losses=loss_policies(parsed),
        mirror_quarantine_topic=parsed.optional_string("mirror.quarantine.topic") or None,
        mirror_history_url=flow_history_url(parsed.secret(URL_KEY), parsed.originals),
        mirror_history_retention_days=parsed.integer(RETENTION_KEY),
    )


def assigned_partitions(props: Mapping[str, str]) -> list[tuple[str, int]]:
    """Parse the partitions in a task's properties. Raises ConfigError."""
    elements = props.get("task.assigned.partitions", "").split(",")
    return [_topic_partition(element.strip()) for element in elements if element.strip()]


def _topic_partition(element: str) -> tuple[str, int]:
    topic, dash, partition = element.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()):
        raise invalid_value(
            "task.assigned.partitions", element, "Elements must be <topic>-<partition>"
        )
    return topic, int(partition)


def _check_offset_syncs(parsed: ParsedConfig) -> None:
    """Raise ConfigError for settings of a disabled offset-syncs topic, as MirrorMaker 2 does."""
    if parsed.originals.get("emit.offset-syncs.enabled") != "false":
        return
    useless = sorted(
        key for key in parsed.originals if key.startswith(("offset-syncs-", "offset-syncs.topic."))
    )
    if useless:
        raise ConfigError(
            "Invalid value false for configuration emit.offset-syncs.enabled: "
            f"{', '.join(useless)} would have no effect; remove it, or set "
            "emit.offset-syncs.enabled=true",
            key="emit.offset-syncs.enabled",
            value="false",
        )
