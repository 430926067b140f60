"""Choose topics by MirrorMaker 1's `--include` and `--exclude`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from connect.clients.librdkafka.admin import BROKER_INTERNAL_TOPICS
from connect.config.java_regex import JavaRegex, JavaRegexError, compile_java_regex
from connect.errors import ConfigError

__all__ = ["TopicList"]


_NAME = re.compile(r"[\w.-]+", re.ASCII)


class TopicList:
    """The topics of one of the two options."""

    def __init__(self, option: str, text: str, *, excludes: bool = False) -> None:
        """`option`: as the user wrote it, for errors. Raises `ConfigError`."""
        self._excludes = excludes
        self._pattern = _compile(option, text)
        parts = [] if excludes else _joined(text).split("|")
        self.named = frozenset(part for part in parts if _NAME.fullmatch(part))
        """The topics that the list names one by one."""

    def matches(self, topic: str) -> bool:
        """Whether this topic is mirrored."""
        if topic in BROKER_INTERNAL_TOPICS:
            return False
        return (self._pattern.fullmatch(topic) is None) == self._excludes

    def choose(self, topics: Iterable[str]) -> list[str]:
        """Return the topics to mirror, sorted."""
        return sorted(topic for topic in topics if self.matches(topic))

    @property
    def internal(self) -> list[str]:
        """Return Kafka's internal topics that the pattern alone would have chosen. Their records
        are about their own cluster, and brokers accept them from no ordinary producer."""
        return sorted(
            topic
            for topic in BROKER_INTERNAL_TOPICS
            if (self._pattern.fullmatch(topic) is None) == self._excludes
        )


def _compile(option: str, text: str) -> JavaRegex:
    """Compile a list as Kafka's tools read it: a comma means `|`, spaces and surrounding quotes do
    not count."""
    pattern = _joined(text)
    if not pattern:
        raise ConfigError(f"Invalid value {text!r} for {option}: name at least one topic")
    try:
        return compile_java_regex(pattern)
    except JavaRegexError as error:
        raise ConfigError(
            f"Invalid value {text} for {option}: {error}. Use a Java regular expression, such as "
            "'orders|payments.*' or '.*' for all topics"
        ) from error


def _joined(text: str) -> str:
    return text.replace(",", "|").replace(" ", "").strip("\"'")
