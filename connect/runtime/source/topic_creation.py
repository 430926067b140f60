"""Settings for new topics of a source connector (KIP-158). Pure.

A connector with any `topic.creation.*` key defines its topics in groups. Without such a key,
brokers create new topics (`auto.create.topics.enable`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect.config.connector import SOURCE_CONNECTOR_KEYS
from connect.config.definition import REQUIRED, ConfigDef, ConfigKey, Importance, Required
from connect.config.java_regex import JavaRegex, JavaRegexError, compile_java_regex
from connect.config.types import ConfigScalar, ConfigType, invalid_value
from connect.config.validators import Validator

__all__ = ["TopicGroup", "TopicGroups", "parse_topic_groups"]

_PREFIX = "topic.creation."
_GROUPS = "topic.creation.groups"
_DEFAULT = "default"
_INCLUDE, _EXCLUDE = "include", "exclude"
_PARTITIONS, _REPLICATION_FACTOR = "partitions", "replication.factor"
_OWN_NAMES = frozenset({_INCLUDE, _EXCLUDE, _PARTITIONS, _REPLICATION_FACTOR})


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Settings for a group of new topics. -1 means the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    include: JavaRegex = field(repr=False)
    exclude: JavaRegex = field(repr=False)

    def matches(self, topic: str) -> bool:
        """Return whether the whole name matches `include` and not `exclude`."""
        return not self.exclude.fullmatch(topic) and bool(self.include.fullmatch(topic))


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """The topic groups of one connector in order, and the default group."""

    named: tuple[TopicGroup, ...]
    default: TopicGroup

    def group_of(self, topic: str) -> TopicGroup:
        """Return the first matching group."""
        return next((group for group in self.named if group.matches(topic)), self.default)


def parse_topic_groups(config: Mapping[str, str]) -> TopicGroups | None:
    """Return the groups of a connector's config, or None if it defines no topics.

    As in Java, a group named `default` is the default group, and matches every topic whatever its
    own patterns are. Raises `ConfigError`.
    """
    if not any(key.startswith(_PREFIX) for key in config):
        return None
    groups_key = next(key for key in SOURCE_CONNECTOR_KEYS if key.name == _GROUPS)
    base = ConfigDef([groups_key, *_group_keys(_DEFAULT, REQUIRED, REQUIRED)])
    parsed = base.parse(config)
    partitions = parsed.integer(f"{_PREFIX}{_DEFAULT}.{_PARTITIONS}")
    replication_factor = parsed.integer(f"{_PREFIX}{_DEFAULT}.{_REPLICATION_FACTOR}")
    names = [name for name in parsed.strings(_GROUPS) if name != _DEFAULT]
    named = tuple(_group(name, config, partitions, replication_factor) for name in names)
    default = TopicGroup(
        _DEFAULT,
        partitions,
        replication_factor,
        _topic_configs(_DEFAULT, config),
        compile_java_regex(".*"),
        compile_java_regex(""),
    )
    return TopicGroups(named, default)


@dataclass(frozen=True, slots=True)
class _Count:
    """Validates a count: at least 1, or -1."""

    text: str

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if isinstance(value, int) and (value == -1 or value >= 1):
            return value
        raise invalid_value(key, value, self.text)

    def describe(self) -> str:
        return "at least 1, or -1 for the broker's default"


class _JavaPatterns:
    """Validates a list of Java regular expressions."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        for pattern in value if isinstance(value, tuple) else ():
            try:
                compile_java_regex(pattern)
            except JavaRegexError as error:
                raise invalid_value(
                    key, value, f"Syntax error in regular expression: {error}"
                ) from error
        return value

    def describe(self) -> str:
        return "Java regular expressions"


_PARTITION_COUNT = _Count(
    "Number of partitions must be positive, or -1 to use the broker's default"
)
_REPLICA_COUNT = _Count(
    "Replication factor must be positive and not larger than the number of brokers in the Kafka"
    " cluster, or -1 to use the broker's default"
)


def _group_keys(
    group: str, partitions: int | Required, replication_factor: int | Required
) -> list[ConfigKey]:
    def key(
        name: str, kind: ConfigType, default: ConfigScalar | Required, validator: Validator
    ) -> ConfigKey:
        return ConfigKey(name, kind, default, validator, Importance.LOW).prefixed(
            f"{_PREFIX}{group}."
        )

    return [
        key(_INCLUDE, ConfigType.LIST, (), _JavaPatterns()),
        key(_EXCLUDE, ConfigType.LIST, (), _JavaPatterns()),
        key(_REPLICATION_FACTOR, ConfigType.SHORT, replication_factor, _REPLICA_COUNT),
        key(_PARTITIONS, ConfigType.INT, partitions, _PARTITION_COUNT),
    ]


def _group(
    name: str, config: Mapping[str, str], partitions: int, replication_factor: int
) -> TopicGroup:
    parsed = ConfigDef(_group_keys(name, partitions, replication_factor)).parse(config)
    prefix = f"{_PREFIX}{name}."
    return TopicGroup(
        name,
        parsed.integer(prefix + _PARTITIONS),
        parsed.integer(prefix + _REPLICATION_FACTOR),
        _topic_configs(name, config),
        compile_java_regex("|".join(parsed.strings(prefix + _INCLUDE))),
        compile_java_regex("|".join(parsed.strings(prefix + _EXCLUDE))),
    )


def _topic_configs(group: str, config: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{_PREFIX}{group}."
    given = {key[len(prefix) :]: text for key, text in config.items() if key.startswith(prefix)}
    return {name: text for name, text in given.items() if name and name not in _OWN_NAMES}
