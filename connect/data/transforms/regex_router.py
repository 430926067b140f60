"""RegexRouter: another topic, where the topic's name matches a regular expression."""

from __future__ import annotations

from typing import TypeVar

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.java_regex import compile_java_regex
from connect.data.record import ConnectRecord
from connect.data.transforms.base import Transformation
from connect.data.transforms.regex import JavaPattern, replace_first

__all__ = ["RegexRouter"]

R = TypeVar("R", bound=ConnectRecord)


class RegexRouter(Transformation):
    """Topics that do not match as a whole stay as they are."""

    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "regex",
                ConfigType.STRING,
                validator=JavaPattern(),
                importance=Importance.HIGH,
                doc="Java regular expression that the whole name of the topic must match.",
            ),
            ConfigKey(
                "replacement",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="The new name; `$1` stands for the first group.",
            ),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._regex = compile_java_regex(config.string("regex"))
        self._replacement = config.string("replacement")

    def apply(self, record: R) -> R | None:
        if self._regex.fullmatch(record.topic) is None:
            return record
        # Java looks for the match again, and this time it need not be the whole name.
        match = self._regex.search(record.topic)
        assert match is not None
        return record.with_topic(replace_first(match, self._replacement))
