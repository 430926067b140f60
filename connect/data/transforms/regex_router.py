"""RegexRouter: change the topic of records whose topic matches a regular expression."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.java_regex import compile_java_regex
from connect.data.transforms.base import R, Transformation
from connect.data.transforms.regex import JavaPattern, replace_first

__all__ = ["RegexRouter"]

_MOST_NAMES = 1_000
"""The names that are remembered, because records of one topic follow one another."""


class RegexRouter(Transformation):
    """Renames topics. A topic whose whole name does not match stays as it is."""

    PARTS = frozenset()
    ROUTES_ONLY = True

    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "regex",
                ConfigType.STRING,
                validator=JavaPattern(),
                importance=Importance.HIGH,
                doc="Java regular expression that the whole topic name must match.",
            ),
            ConfigKey(
                "replacement",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="The new topic name; `$1` is the first group.",
            ),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._regex = compile_java_regex(config.string("regex"))
        self._replacement = config.string("replacement")
        self._names: dict[str, str] = {}

    def apply(self, record: R) -> R | None:
        topic = self.topic_for(record.topic)
        return record if topic == record.topic else record.with_topic(topic)

    def topic_for(self, topic: str) -> str:
        name = self._names.get(topic)
        if name is None:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            name = self._names[topic] = self._renamed(topic)
        return name

    def _renamed(self, topic: str) -> str:
        if self._regex.fullmatch(topic) is None:
            return topic
        # Java searches for the match again, and this match may be a part of the name.
        match = self._regex.search(topic)
        assert match is not None
        return replace_first(match, self._replacement)
