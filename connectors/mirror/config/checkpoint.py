"""The keys of the mirror checkpoint connector and its tasks, and their parsed values (Kafka
4.3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from connect.config.definition import REQUIRED, ConfigDef, ConfigKey, Importance, ParsedConfig
from connect.config.types import ConfigType, SecretStr
from connect.config.validators import OneOf, Range, ValidList
from connect.errors import ConfigError
from connectors.mirror.config.base import (
    BASE_CONFIG_DEF,
    CONSUMER_POLL_TIMEOUT_MS,
    JAVA_PACKAGE,
    METRIC_NAMES_FORMATS,
    OFFSET_SYNCS_TOPIC_LOCATION,
    SPARK_IDLE_TIMEOUT,
    TASK_INDEX,
    TOPIC_FILTER_CLASS,
    MirrorConfig,
    base_fields,
    interval_s,
    mirror_key,
)
from connectors.mirror.config.engine import names_cluster
from connectors.mirror.config.former_names import with_new_names
from connectors.mirror.config.history_url import flow_history_url
from connectors.mirror.config.loss_policies import HISTORY_KEYS, RETENTION_KEY, URL_KEY
from connectors.mirror.config.source import SOURCE_CONFIG_DEF

__all__ = [
    "CHECKPOINT_CONFIG_DEF",
    "CHECKPOINT_TASK_CONFIG_DEF",
    "TRANSLATION_ENGINE",
    "CheckpointConfig",
    "CheckpointTaskConfig",
]

TRANSLATION_ENGINE = "mirror.translation.engine"
_MIN_OFFSETS = "mirror.translation.spark.min.offsets"

CHECKPOINT_CONFIG_DEF: ConfigDef = BASE_CONFIG_DEF.extended(
    [
        mirror_key(
            "groups",
            ConfigType.LIST,
            (".*",),
            "Consumer groups to translate: names and Java regular expressions.",
            Importance.HIGH,
        ),
        mirror_key(
            "groups.exclude",
            ConfigType.LIST,
            ("console-consumer-.*", "connect-.*", "__.*"),
            "Consumer groups not to translate; takes precedence over `groups`.",
            Importance.HIGH,
        ),
        mirror_key(
            "group.filter.class",
            ConfigType.CLASS,
            JAVA_PACKAGE + "DefaultGroupFilter",
            "Class that selects the groups to translate.",
        ),
        TOPIC_FILTER_CLASS,
        CONSUMER_POLL_TIMEOUT_MS,
        mirror_key(
            "refresh.groups.enabled",
            ConfigType.BOOLEAN,
            True,
            "Whether to look for new groups while running.",
        ),
        mirror_key(
            "refresh.groups.interval.seconds",
            ConfigType.LONG,
            600,
            "Interval of the group refresh, in seconds.",
        ),
        mirror_key(
            "emit.checkpoints.enabled",
            ConfigType.BOOLEAN,
            True,
            "Whether translated offsets are written to the checkpoints topic.",
        ),
        mirror_key(
            "emit.checkpoints.interval.seconds",
            ConfigType.LONG,
            60,
            "Interval between checkpoint rounds, in seconds.",
        ),
        mirror_key(
            "sync.group.offsets.enabled",
            ConfigType.BOOLEAN,
            False,
            "Whether translated offsets are committed for the same groups on the target.",
        ),
        mirror_key(
            "sync.group.offsets.interval.seconds",
            ConfigType.LONG,
            60,
            "Interval between group offset syncs, in seconds.",
        ),
        mirror_key(
            "checkpoints.topic.replication.factor",
            ConfigType.SHORT,
            3,
            "Replication factor of the checkpoints topic.",
        ),
        OFFSET_SYNCS_TOPIC_LOCATION,
        METRIC_NAMES_FORMATS,
        ConfigKey(
            TRANSLATION_ENGINE,
            ConfigType.STRING,
            "auto",
            OneOf(("auto", "process", "spark")),
            Importance.LOW,
            "Where group offsets are translated and the offsets to commit on the target are "
            "computed. `process`: in the task's process. `spark`: in Spark jobs, which also read "
            "the offset syncs and the offset map, so the process holds neither; without a Spark "
            "session no checkpoints are written. `auto`: in the process, but on Spark if there "
            "is a session and rounds repeatedly have at least "
            "`mirror.translation.spark.min.offsets` offsets. Not a key of MirrorMaker 2.",
        ),
        ConfigKey(
            _MIN_OFFSETS,
            ConfigType.INT,
            50_000,
            Range(0),
            Importance.LOW,
            "With `mirror.translation.engine=auto`: minimum number of group offsets in a round "
            "that is translated on Spark. Smaller rounds cost less in the process. 0: always use "
            "Spark, which is the default if the flow's `spark.master` or `spark.remote` names a "
            "cluster. Not a key of MirrorMaker 2.",
        ),
        SPARK_IDLE_TIMEOUT,
        *HISTORY_KEYS,
    ]
)

CHECKPOINT_TASK_CONFIG_DEF: ConfigDef = CHECKPOINT_CONFIG_DEF.extended(
    [
        ConfigKey(
            "task.assigned.groups",
            ConfigType.LIST,
            REQUIRED,
            ValidList(allow_empty=False),
            Importance.LOW,
            "The groups assigned to the task.",
            internal=True,
        ),
        TASK_INDEX,
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig(MirrorConfig):
    """The parsed config of the checkpoint connector. `..._interval_s`: seconds; None if
    disabled."""

    refresh_groups_interval_s: float | None
    emit_checkpoints_interval_s: float | None
    sync_group_offsets_interval_s: float | None
    checkpoints_topic_replication_factor: int
    mirror_translation_engine: Literal["auto", "process", "spark"]
    mirror_translation_spark_min_offsets: int
    mirror_history_url: SecretStr
    mirror_history_retention_days: int

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> CheckpointConfig:
        """Parse a connector's properties. Raises ConfigError for the first invalid one."""
        return _checkpoint_config(CHECKPOINT_CONFIG_DEF.parse(with_new_names(props)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTaskConfig:
    """The parsed config of one checkpoint task: the connector's, and the task's assignment."""

    connector: CheckpointConfig
    task_assigned_groups: tuple[str, ...]
    task_index: str | None

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> CheckpointTaskConfig:
        """Parse a task's properties. Raises ConfigError for the first invalid one."""
        parsed = CHECKPOINT_TASK_CONFIG_DEF.parse(props)
        return cls(
            connector=_checkpoint_config(parsed),
            task_assigned_groups=parsed.strings("task.assigned.groups"),
            task_index=parsed.optional_string("task.index"),
        )


def _checkpoint_config(parsed: ParsedConfig) -> CheckpointConfig:
    _check_offset_syncs(parsed)
    # The topic filter reads these: a group counts if it reads a mirrored topic.
    ConfigDef([SOURCE_CONFIG_DEF.keys[key] for key in ("topics", "topics.exclude")]).parse(
        parsed.originals
    )
    return CheckpointConfig(
        **base_fields(parsed),
        refresh_groups_interval_s=interval_s(parsed, "refresh.groups"),
        emit_checkpoints_interval_s=interval_s(parsed, "emit.checkpoints", zero_allowed=True),
        sync_group_offsets_interval_s=interval_s(parsed, "sync.group.offsets"),
        checkpoints_topic_replication_factor=parsed.integer("checkpoints.topic.replication.factor"),
        mirror_translation_engine=_ENGINES[parsed.string(TRANSLATION_ENGINE)],
        mirror_translation_spark_min_offsets=_min_offsets(parsed),
        mirror_history_url=flow_history_url(parsed.secret(URL_KEY), parsed.originals),
        mirror_history_retention_days=parsed.integer(RETENTION_KEY),
    )


def _min_offsets(parsed: ParsedConfig) -> int:
    if _MIN_OFFSETS not in parsed.originals and names_cluster(parsed.originals):
        return 0
    return parsed.integer(_MIN_OFFSETS)


_ENGINES: dict[str, Literal["auto", "process", "spark"]] = {
    "auto": "auto",
    "process": "process",
    "spark": "spark",
}


def _check_offset_syncs(parsed: ParsedConfig) -> None:
    """Raise ConfigError without offset syncs, as MirrorMaker 2 does: translation needs them."""
    if parsed.originals.get("enabled") == "false":
        return
    for key in ("emit.checkpoints.enabled", "emit.offset-syncs.enabled"):
        if parsed.originals.get(key) == "false":
            raise ConfigError(
                f"Invalid value false for configuration {key}: the checkpoint connector requires "
                "it. Set it to true, or disable the checkpoint connector",
                key=key,
                value="false",
            )
