"""Config keys of source and sink connectors, in the order of Kafka Connect 4.3.1's forms."""

from __future__ import annotations

from connect.config.definition import REQUIRED, ConfigKey, Importance, Width
from connect.config.types import ConfigScalar, ConfigType
from connect.config.validators import (
    JavaPattern,
    NonEmptyString,
    OneOf,
    OrNull,
    PrintableName,
    Range,
    UniqueAliases,
    ValidList,
)

__all__ = ["CONNECTOR_KEYS", "SINK_CONNECTOR_KEYS", "SOURCE_CONNECTOR_KEYS"]

_COMMON, _TRANSFORMS = "Common", "Transforms"
_PREDICATES, _ERRORS = "Predicates", "Error Handling"
_EXACTLY_ONCE = "Exactly Once Support"
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _converter_keys(kind: str, order: int) -> tuple[ConfigKey, ...]:
    return (
        ConfigKey(
            f"{kind}.converter",
            ConfigType.CLASS,
            None,
            importance=_LOW,
            doc=f"Converter of record {kind}s. Without it, the worker's is used.",
            group=_COMMON,
            order=order,
            width=Width.SHORT,
            display_name=f"{kind.capitalize()} converter class",
        ),
        _version_key(
            f"{kind}.converter.plugin.version",
            f"the {kind} converter",
            order + 1,
            f"{kind.capitalize()} converter version",
        ),
    )


def _version_key(
    name: str,
    subject: str,
    order: int,
    display_name: str,
    importance: Importance = _LOW,
    width: Width = Width.SHORT,
) -> ConfigKey:
    return ConfigKey(
        name,
        ConfigType.STRING,
        None,
        importance=importance,
        doc=f"Version of {subject}, or a range of them: `1.2`, `[1.0,2.0)`, `latest`.",
        group=_COMMON,
        order=order,
        width=width,
        display_name=display_name,
    )


def _error_key(
    name: str,
    kind: ConfigType,
    default: ConfigScalar,
    order: int,
    display_name: str,
    doc: str,
    width: Width = Width.SHORT,
) -> ConfigKey:
    return ConfigKey(
        name,
        kind,
        default,
        OneOf(("none", "all")) if name == "errors.tolerance" else None,
        _MEDIUM,
        doc,
        _ERRORS,
        order,
        width,
        display_name,
    )


CONNECTOR_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "name",
        ConfigType.STRING,
        REQUIRED,
        PrintableName(),
        _HIGH,
        "The connector's name, unique among the workers of a group. Offsets are stored under it.",
        _COMMON,
        1,
        Width.MEDIUM,
        "Connector name",
    ),
    ConfigKey(
        "connector.class",
        ConfigType.STRING,
        REQUIRED,
        importance=_HIGH,
        doc="The connector's class: its full or simple name. Java class names are accepted.",
        group=_COMMON,
        order=2,
        width=Width.LONG,
        display_name="Connector class",
    ),
    _version_key(
        "connector.plugin.version", "the connector", 3, "Connector version", _MEDIUM, Width.MEDIUM
    ),
    ConfigKey(
        "tasks.max",
        ConfigType.INT,
        1,
        Range(1),
        _HIGH,
        "Maximum number of tasks.",
        _COMMON,
        4,
        Width.SHORT,
        "Tasks max",
    ),
    ConfigKey(
        "tasks.max.enforce",
        ConfigType.BOOLEAN,
        True,
        importance=_LOW,
        doc="Whether a connector that makes more than `tasks.max` tasks fails.",
        group=_COMMON,
        order=5,
        width=Width.SHORT,
        display_name="Enforce tasks max",
    ),
    *_converter_keys("key", 6),
    *_converter_keys("value", 8),
    *_converter_keys("header", 10),
    ConfigKey(
        "transforms",
        ConfigType.LIST,
        (),
        UniqueAliases("transformation"),
        _LOW,
        "Aliases of the transformations that records go through, in order.",
        _TRANSFORMS,
        12,
        Width.LONG,
        "Transforms",
    ),
    ConfigKey(
        "predicates",
        ConfigType.LIST,
        (),
        UniqueAliases("predicate"),
        _LOW,
        "Aliases of the predicates that transformations may refer to.",
        _PREDICATES,
        13,
        Width.LONG,
        "Predicates",
    ),
    ConfigKey(
        "config.action.reload",
        ConfigType.STRING,
        "restart",
        OneOf(("none", "restart")),
        _LOW,
        "Whether to restart the connector when a value from a config provider expires.",
        _COMMON,
        14,
        Width.MEDIUM,
        "Reload Action",
    ),
    _error_key(
        "errors.retry.timeout",
        ConfigType.LONG,
        0,
        1,
        "Retry Timeout for Errors",
        "How long to retry a failed record operation, in ms. 0: never; -1: forever.",
        Width.MEDIUM,
    ),
    _error_key(
        "errors.retry.delay.max.ms",
        ConfigType.LONG,
        60_000,
        2,
        "Maximum Delay Between Retries for Errors",
        "Maximum wait between two retries, in ms.",
        Width.MEDIUM,
    ),
    _error_key(
        "errors.tolerance",
        ConfigType.STRING,
        "none",
        3,
        "Error Tolerance",
        "`none`: the first failed record fails the task. `all`: such records are skipped.",
    ),
    _error_key(
        "errors.log.enable",
        ConfigType.BOOLEAN,
        False,
        4,
        "Log Errors",
        "Whether each failed record operation is logged.",
    ),
    _error_key(
        "errors.log.include.messages",
        ConfigType.BOOLEAN,
        False,
        5,
        "Log Error Details",
        "Whether these log lines contain the record itself.",
    ),
)


SOURCE_CONNECTOR_KEYS: tuple[ConfigKey, ...] = (
    *CONNECTOR_KEYS,
    ConfigKey(
        "topic.creation.groups",
        ConfigType.LIST,
        (),
        UniqueAliases("group"),
        _LOW,
        "Topic creation groups, each with its own partitions, replication factor and configs.",
        "Topic Creation",
        1,
        Width.LONG,
        "Topic Creation Groups",
    ),
    ConfigKey(
        "exactly.once.support",
        ConfigType.STRING,
        "requested",
        OneOf(("REQUIRED", "REQUESTED"), ignore_case=True),
        _MEDIUM,
        "`required` rejects a connector that cannot write exactly once.",
        _EXACTLY_ONCE,
        2,
        Width.SHORT,
        "Exactly once support",
    ),
    ConfigKey(
        "transaction.boundary",
        ConfigType.STRING,
        "poll",
        OneOf(("INTERVAL", "POLL", "CONNECTOR"), ignore_case=True),
        _MEDIUM,
        "When transactions are committed under exactly-once: after each batch of records (`poll`),"
        " at an interval, or when the connector decides.",
        _EXACTLY_ONCE,
        3,
        Width.SHORT,
        "Transaction Boundary",
    ),
    ConfigKey(
        "transaction.boundary.interval.ms",
        ConfigType.LONG,
        None,
        OrNull(Range(0)),
        _LOW,
        "Interval of commits, in ms. Defaults to the worker's `offset.flush.interval.ms`.",
        _EXACTLY_ONCE,
        4,
        Width.SHORT,
        "Transaction boundary interval",
    ),
    ConfigKey(
        "offsets.storage.topic",
        ConfigType.STRING,
        None,
        NonEmptyString(),
        _LOW,
        "A separate topic for this connector's source offsets.",
        "offsets.topic",
        1,
        Width.LONG,
        "Offsets topic",
    ),
)
"""The keys of every source connector."""

SINK_CONNECTOR_KEYS: tuple[ConfigKey, ...] = (
    *CONNECTOR_KEYS,
    ConfigKey(
        "topics",
        ConfigType.LIST,
        (),
        ValidList(),
        _HIGH,
        "Topics to read.",
        _COMMON,
        4,
        Width.LONG,
        "Topics",
    ),
    ConfigKey(
        "topics.regex",
        ConfigType.STRING,
        "",
        JavaPattern(),
        _HIGH,
        "Java regular expression of the topics to read. Excludes `topics`.",
        _COMMON,
        4,
        Width.LONG,
        "Topics regex",
    ),
    _error_key(
        "errors.deadletterqueue.topic.name",
        ConfigType.STRING,
        "",
        6,
        "Dead Letter Queue Topic Name",
        "Topic for records that could not be processed. If empty, they are dropped.",
        Width.MEDIUM,
    ),
    _error_key(
        "errors.deadletterqueue.topic.replication.factor",
        ConfigType.SHORT,
        3,
        7,
        "Dead Letter Queue Topic Replication Factor",
        "Replication factor of the dead letter queue topic if the worker creates it.",
        Width.MEDIUM,
    ),
    _error_key(
        "errors.deadletterqueue.context.headers.enable",
        ConfigType.BOOLEAN,
        False,
        8,
        "Enable Error Context Headers",
        "Whether records in the dead letter queue get headers with the error's context.",
        Width.MEDIUM,
    ),
)
"""The keys of every sink connector."""
