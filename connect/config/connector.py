"""The keys that every connector has, in the order and groups of Kafka Connect 4.3.1's forms."""

from __future__ import annotations

from connect.config.definition import REQUIRED, ConfigKey, Importance, Width
from connect.config.types import ConfigScalar, ConfigType
from connect.config.validators import OneOf, PrintableName, Range, UniqueAliases

__all__ = ["CONNECTOR_KEYS"]

_COMMON, _TRANSFORMS = "Common", "Transforms"
_PREDICATES, _ERRORS = "Predicates", "Error Handling"
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
        _version_key(f"{kind}.converter.plugin.version", f"the {kind} converter", order + 1),
    )


def _version_key(name: str, subject: str, order: int, importance: Importance = _LOW) -> ConfigKey:
    return ConfigKey(
        name,
        ConfigType.STRING,
        None,
        importance=importance,
        doc=f"Version range of {subject}. Accepted for Kafka Connect's sake; it has no effect.",
        group=_COMMON,
        order=order,
        width=Width.SHORT,
    )


def _error_key(
    name: str, kind: ConfigType, default: ConfigScalar, order: int, doc: str
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
    )


CONNECTOR_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "name",
        ConfigType.STRING,
        REQUIRED,
        PrintableName(),
        _HIGH,
        "The connector's name, unique among the workers of a group. Stored offsets belong to it.",
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
        doc="The connector's class: a full name, or its last part. Java's names are understood.",
        group=_COMMON,
        order=2,
        width=Width.LONG,
        display_name="Connector class",
    ),
    _version_key("connector.plugin.version", "the connector", 3, _MEDIUM),
    ConfigKey(
        "tasks.max",
        ConfigType.INT,
        1,
        Range(1),
        _HIGH,
        "The most tasks the work is cut into.",
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
        "What to do when a value from a config provider runs out: restart the connector, or none.",
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
        "How long a failed record operation is tried again, in ms. 0: not; -1: without end.",
    ),
    _error_key(
        "errors.retry.delay.max.ms",
        ConfigType.LONG,
        60_000,
        2,
        "The longest wait between two tries, in ms.",
    ),
    _error_key(
        "errors.tolerance",
        ConfigType.STRING,
        "none",
        3,
        "`none`: the first failed record fails the task. `all`: such records are skipped.",
    ),
    _error_key(
        "errors.log.enable",
        ConfigType.BOOLEAN,
        False,
        4,
        "Whether each failed record operation is logged.",
    ),
    _error_key(
        "errors.log.include.messages",
        ConfigType.BOOLEAN,
        False,
        5,
        "Whether that log holds the record itself.",
    ),
)
