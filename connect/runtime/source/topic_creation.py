"""The settings for new topics of a source connector (KIP-158). Pure.

A connector that has any `topic.creation.*` key describes its topics itself, in groups; without
one, new topics are the brokers' business (`auto.create.topics.enable`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect.config.connector import SOURCE_CONNECTOR_KEYS
from connect.config.definition import REQUIRED, ConfigDef, ConfigKey, Importance, Required
from connect.config.java_regex import JavaRegexError, compile_java_regex
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
    """Topics that are created alike. -1: the brokers' default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    include: re.Pattern[str] = field(repr=False)
    exclude: re.Pattern[str] = field(repr=False)

    def matches(self, topic: str) -> bool:
        """Whether the whole name is included, and not excluded."""
        return not self.exclude.fullmatch(topic) and bool(self.include.fullmatch(topic))


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """The groups of one connector, in their order, and the one for all other topics."""

    named: tuple[TopicGroup, ...]
    default: TopicGroup

    def group_of(self, topic: str) -> TopicGroup:
        """The first group that matches."""
        return next((group for group in self.named if group.matches(topic)), self.default)


def parse_topic_groups(config: Mapping[str, str]) -> TopicGroups | None:
    """The groups of a connector's config; None where it does not describe any topics.

    As Java does, it takes a group `default` among the named ones for the default one, and lets that
    match every topic whatever its own patterns are. Raises `ConfigError`.
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
    """At least 1, or -1."""

    text: str

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if isinstance(value, int) and (value == -1 or value >= 1):
            return value
        raise invalid_value(key, value, self.text)

    def describe(self) -> str:
        return "at least 1, or -1 for the broker's default"


class _JavaPatterns:
    """A list of Java's regular expressions."""

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
        return "regular expressions (Java's)"


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
