"""The source topics that a job copies: those of the flow's filter, or those that the command line
names."""

from __future__ import annotations

import re
from collections.abc import Collection

from connect.clients.librdkafka.admin import Admin
from connect.config.java_regex import JavaRegex, JavaRegexError, compile_java_regex
from connect.errors import ConfigError
from connectors.mirror.filters import DefaultTopicFilter, TopicFilter
from connectors.mirror.inspect.cluster_queries import refuse_hidden
from connectors.mirror.topics.selection import TopicSelector

__all__ = ["NamedTopics", "refuse_hidden_sources", "topic_pattern"]

_NAME = re.compile(r"[\w.-]+")


def topic_pattern(text: str) -> JavaRegex:
    """Return the pattern of `--topics`: a Java regular expression, as in `topics`. Raises
    `ConfigError`."""
    try:
        return compile_java_regex(text)
    except JavaRegexError as error:
        raise ConfigError(
            f"Invalid value {text} for --topics: {error}. Use a Java regular expression, such as "
            "'orders|payments.*'",
            key="--topics",
        ) from error


class NamedTopics(TopicFilter):
    """A topic filter for the topics named on the command line, instead of the flow's own filter."""

    def __init__(self, pattern: JavaRegex) -> None:
        super().__init__({})
        self._pattern = pattern

    def should_replicate_topic(self, topic: str) -> bool:
        return self._pattern.fullmatch(topic) is not None

    def literals(self) -> list[str]:
        """Return the topic, if the pattern is a plain name."""
        name = self._pattern.pattern
        return [name] if _NAME.fullmatch(name) else []


def refuse_hidden_sources(
    admin: Admin, selector: TopicSelector, listed: Collection[str], needed: str = "Read"
) -> None:
    """Raise `BrokerError` if the user may not describe a topic that the filter names in full, for
    which an operation is `needed`. Without it the job would silently leave the topic out. `listed`:
    the source's topics."""
    topics = selector.topics
    named: list[str] = []
    if isinstance(topics, NamedTopics):
        named = topics.literals()
    elif isinstance(topics, DefaultTopicFilter):
        named = topics.include.literals()
    wanted = {name for name in named if name not in listed and selector.skip(name) is None}
    refuse_hidden(admin, wanted, needed)
