"""The keys that all three mirror connectors share, and their parsed values.

Names, types and defaults are MirrorMaker 2's (Kafka 4.3.1).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from connect.config.connector import CONNECTOR_KEYS
from connect.config.definition import ConfigDef, ConfigKey, Importance, ParsedConfig
from connect.config.security import SECURITY_KEYS
from connect.config.types import ConfigScalar, ConfigType, invalid_value
from connect.config.validators import OneOf, ValidList
from connectors.spark.properties import IDLE_TIMEOUT as SPARK_IDLE_TIMEOUT
from connectors.spark.properties import START_DELAY as SPARK_START_DELAY

__all__ = [
    "BASE_CONFIG_DEF",
    "CONSUMER_POLL_TIMEOUT_MS",
    "JAVA_PACKAGE",
    "MAPPING_FILE_KEY",
    "METRIC_NAMES_FORMATS",
    "OFFSET_SYNCS_TOPIC_LOCATION",
    "SPARK_IDLE_TIMEOUT",
    "SPARK_START_DELAY",
    "TASK_INDEX",
    "TOPIC_FILTER_CLASS",
    "BaseFields",
    "MirrorConfig",
    "base_fields",
    "interval_s",
    "mirror_key",
]

log = logging.getLogger(__name__)

JAVA_PACKAGE = "org.apache.kafka.connect.mirror."
MAPPING_FILE_KEY = "replication.policy.mapping.file"
FORWARDING_ADMIN_KEY = "forwarding.admin.class"
JAVA_FORWARDING_ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"


def mirror_key(
    name: str,
    kind: ConfigType,
    default: ConfigScalar,
    doc: str,
    importance: Importance = Importance.LOW,
) -> ConfigKey:
    """Declare a key of the mirror connectors. A LIST takes no empty elements, as in Kafka 4."""
    validator = ValidList() if kind is ConfigType.LIST else None
    return ConfigKey(name, kind, default, validator, importance, doc)


_BASE_KEYS = (
    mirror_key(
        "enabled",
        ConfigType.BOOLEAN,
        True,
        "Whether this flow copies topics. The heartbeat connector ignores it.",
    ),
    ConfigKey(
        "source.cluster.alias",
        ConfigType.STRING,
        importance=Importance.HIGH,
        doc="Alias of the source cluster.",
    ),
    mirror_key(
        "target.cluster.alias",
        ConfigType.STRING,
        "target",
        "Alias of the target cluster.",
        Importance.HIGH,
    ),
    mirror_key(
        "admin.timeout.ms",
        ConfigType.LONG,
        60_000,
        "Timeout of one administrative step, such as listing or creating topics.",
    ),
    mirror_key(
        "replication.policy.class",
        ConfigType.CLASS,
        JAVA_PACKAGE + "DefaultReplicationPolicy",
        "How topics are named on the target: DefaultReplicationPolicy puts the source's alias "
        "before the name, IdentityReplicationPolicy keeps the name, RenamingReplicationPolicy "
        "renames by the keys below. Or a Python class, as module:Class or an entry point of "
        "kafka_connect_mirror.replication_policies.",
    ),
    *(
        mirror_key(
            f"replication.policy.{name}",
            ConfigType.STRING,
            "",
            f"With RenamingReplicationPolicy: {doc} Not a key of MirrorMaker 2.",
        )
        for name, doc in (
            ("prefix", "put before the names of topics on the target."),
            ("suffix", "put after the names of topics on the target."),
            ("prefix.remove", "taken from the start of names that have it, before the others."),
            ("suffix.remove", "taken from the end of names that have it, before the others."),
            (
                "mapping.file",
                "a file with the target's names of single topics, in lines "
                "`<source topic> = <target topic>`. Its topics are renamed only by it. Every "
                "worker reads its own copy when a connector or task starts.",
            ),
        )
    ),
    mirror_key(
        "replication.policy.separator",
        ConfigType.STRING,
        ".",
        "Separator between the alias and the topic's name.",
    ),
    mirror_key(
        "replication.policy.internal.topic.separator.enabled",
        ConfigType.BOOLEAN,
        True,
        "Whether the separator is also used in the names of checkpoint and offset-syncs topics. "
        "Only used if `replication.policy.separator` is set.",
    ),
    mirror_key(
        FORWARDING_ADMIN_KEY,
        ConfigType.CLASS,
        JAVA_FORWARDING_ADMIN,
        "Class through which the mirror creates topics and changes partitions, configs and ACLs: "
        "Java's ForwardingAdmin, which calls Kafka, or a Python subclass, as `module:Class` or "
        "entry point. In a connector's config only one that the worker's operator put into "
        "`plugin.path` or set in the worker's properties.",
    ),
    mirror_key(
        "metric.reporters",
        ConfigType.LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "Java's metric reporters. Accepted but ignored: metrics are served at /metrics.",
    ),
    mirror_key(
        "config.providers",
        ConfigType.LIST,
        (),
        "Aliases of the config providers that resolve `${alias:path:key}` in values.",
    ),
)

TOPIC_FILTER_CLASS = mirror_key(
    "topic.filter.class",
    ConfigType.CLASS,
    JAVA_PACKAGE + "DefaultTopicFilter",
    "Class that selects the topics to mirror.",
)
CONSUMER_POLL_TIMEOUT_MS = mirror_key(
    "consumer.poll.timeout.ms",
    ConfigType.LONG,
    1000,
    "Maximum time to wait for records, or for the next round, in one poll.",
)
OFFSET_SYNCS_TOPIC_LOCATION = ConfigKey(
    "offset-syncs.topic.location",
    ConfigType.STRING,
    "source",
    OneOf(("source", "target")),
    Importance.LOW,
    "Which cluster holds the offset-syncs topic, and the offset map beside it.",
)
METRIC_NAMES_FORMATS = ConfigKey(
    "metric.names.formats",
    ConfigType.LIST,
    ("legacy",),
    ValidList(("legacy", "new"), allow_empty=False),
    Importance.LOW,
    "Naming of Java's metrics. Accepted but ignored: /metrics has its own names.",
)
TASK_INDEX = ConfigKey(
    "task.index",
    ConfigType.STRING,
    None,
    importance=Importance.LOW,
    doc="Number of the task, used in its clients' IDs.",
    internal=True,
)

BASE_CONFIG_DEF = ConfigDef([*CONNECTOR_KEYS, *_BASE_KEYS, *SECURITY_KEYS])


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig:
    """The properties of all three connectors. `originals`: the properties it was read from, which
    filters, the replication policy and clients read themselves."""

    name: str
    enabled: bool
    source_cluster_alias: str
    target_cluster_alias: str
    admin_timeout_ms: int
    originals: Mapping[str, str] = field(repr=False, compare=False)

    @property
    def flow(self) -> str:
        """The flow's name, as in MirrorMaker 2's properties."""
        return f"{self.source_cluster_alias}->{self.target_cluster_alias}"


class BaseFields(TypedDict):
    """The constructor arguments of `MirrorConfig` that every subclass passes on."""

    name: str
    enabled: bool
    source_cluster_alias: str
    target_cluster_alias: str
    admin_timeout_ms: int
    originals: Mapping[str, str]


def base_fields(parsed: ParsedConfig) -> BaseFields:
    """Return the shared fields."""
    return BaseFields(
        name=parsed.string("name"),
        enabled=parsed.boolean("enabled"),
        source_cluster_alias=parsed.string("source.cluster.alias"),
        target_cluster_alias=parsed.string("target.cluster.alias"),
        admin_timeout_ms=parsed.integer("admin.timeout.ms"),
        originals=parsed.originals,
    )


def interval_s(parsed: ParsedConfig, work: str, *, zero_allowed: bool = False) -> float | None:
    """Return the seconds between two rounds of `work`; None if it is disabled.

    It is disabled by `<work>.enabled=false` or, as in Java, by a negative interval. Zero means no
    pause, which only emitters allow (`zero_allowed`); otherwise it raises ConfigError.
    """
    if not parsed.boolean(f"{work}.enabled"):
        return None
    key = f"{work}.interval.seconds"
    seconds = parsed.integer(key)
    if seconds < 0:
        log.warning("%s=%d disables this work; use %s.enabled=false instead", key, seconds, work)
        return None
    if seconds == 0 and not zero_allowed:
        raise invalid_value(
            key, seconds, f"Value must be at least 1; to disable it, set {work}.enabled=false"
        )
    return float(seconds)
