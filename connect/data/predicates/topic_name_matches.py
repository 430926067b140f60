"""TopicNameMatches: true for records of topics whose name matches a regular expression."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, ParsedConfig
from connect.config.java_regex import compile_java_regex
from connect.config.validators import AllOf, NonEmptyString
from connect.data.record import ConnectRecord
from connect.data.transforms.base import Predicate
from connect.data.transforms.regex import JavaPattern

__all__ = ["TopicNameMatches"]


class TopicNameMatches(Predicate):
    """Matches records by topic. The whole name must match the pattern."""

    PARTS = frozenset()

    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "pattern",
                ConfigType.STRING,
                validator=AllOf((NonEmptyString(), JavaPattern())),
                doc="Java regular expression that the whole topic name must match.",
            )
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._pattern = compile_java_regex(config.string("pattern"))

    def test(self, record: ConnectRecord) -> bool:
        return self.test_topic(record.topic)

    def test_topic(self, topic: str) -> bool:
        return self._pattern.fullmatch(topic) is not None
