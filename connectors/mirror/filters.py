"""Select which topics, groups and topic configs are mirrored: the filters of MirrorMaker 2.

A filter takes lists of Java regular expressions that must match a whole name. The elements of a
list are joined by `|` into one pattern. An empty list matches nothing. Exclusion wins over
inclusion. Filters are immutable, so threads may share them. Source: KIP-382.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from connect.config.definition import ConfigDef
from connect.config.java_regex import JavaRegex, JavaRegexError, compile_java_regex
from connect.config.regex_budget import LONGEST
from connect.config.types import invalid_value
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.config.source import SOURCE_CONFIG_DEF
from connectors.mirror.load_class import load_configured

__all__ = [
    "ConfigPropertyFilter",
    "DefaultConfigPropertyFilter",
    "DefaultGroupFilter",
    "DefaultTopicFilter",
    "GroupFilter",
    "PatternList",
    "TopicFilter",
    "config_property_filter",
    "group_filter",
    "topic_filter",
]

_NAME = re.compile(r"[\w.-]+", re.ASCII)
_DOT = re.compile(r"\.")
_SPANNING = re.compile(r"\(\?(?!:)|\\Q")
"""Flags and quotes, which may last until the end of the whole pattern."""


class PatternList:
    """The regular expressions of one property, joined into one pattern that must match whole
    names. In a list that is too long for a pattern, plain names are compared without one."""

    def __init__(self, key: str, elements: Sequence[str]) -> None:
        """`key`: the property's name, for errors. Raises `ConfigError` with the key, the invalid
        element and the position of the error in it."""
        self.elements = tuple(elements)
        self._names = _PlainNames(())
        patterns: Sequence[str] = self.elements
        if sum(map(len, elements)) + len(elements) > LONGEST and _are_separate(patterns):
            self._names = _PlainNames(self.literals())
            patterns = [each for each in elements if not _NAME.fullmatch(each)]
        self._pattern = _compile(key, patterns) if patterns else None

    @classmethod
    def from_key(cls, definition: ConfigDef, key: str, props: Mapping[str, str]) -> PatternList:
        """Parse the value of `key` in `props`, or the default that `definition` declares."""
        parsed = definition.keys[key].parse(props)
        assert isinstance(parsed, tuple), key
        return cls(key, parsed)

    def matches(self, name: str) -> bool:
        if self._names.matches(name):
            return True
        return self._pattern is not None and self._pattern.fullmatch(name) is not None

    def literals(self) -> list[str]:
        """Return the elements that are plain names."""
        return [each for each in self.elements if _NAME.fullmatch(each)]

    def matching(self, name: str) -> str | None:
        """Return the first element that matches `name` by itself; None if there is none. Used in
        reports."""
        if not self.matches(name):
            return None
        for element in self.elements:
            try:
                if compile_java_regex(element).fullmatch(name):
                    return element
            except JavaRegexError:  # This element is valid only together with its neighbours.
                continue
        return "|".join(self.elements)


class _PlainNames:
    """Names as regular expressions: a dot matches any character."""

    def __init__(self, names: Sequence[str]) -> None:
        self._exact = frozenset(each for each in names if "." not in each)
        # By length and the positions of the dots, as one shape is looked up for many names.
        self._dotted: dict[int, dict[tuple[int, ...], set[str]]] = {}
        for each in names:
            dots = tuple(found.start() for found in _DOT.finditer(each))
            if dots:
                self._dotted.setdefault(len(each), {}).setdefault(dots, set()).add(each)

    def matches(self, name: str) -> bool:
        if name in self._exact:
            return True
        for dots, names in self._dotted.get(len(name), {}).items():
            masked = list(name)
            for at in dots:
                masked[at] = "."
            if "".join(masked) in names:
                return True
        return False


def _are_separate(elements: Sequence[str]) -> bool:
    """Whether each element means the same alone: groups, flags or quotes may span several."""
    try:
        return all(
            _NAME.fullmatch(each) or (not _SPANNING.search(each) and bool(compile_java_regex(each)))
            for each in elements
        )
    except JavaRegexError:
        return False


def _compile(key: str, elements: Sequence[str]) -> JavaRegex:
    joined = "|".join(elements)
    try:
        return compile_java_regex(joined)
    except JavaRegexError as error:
        # Of a list that is too long no element is at fault.
        culprit = _culprit(elements) if len(joined) <= LONGEST else None
        element, found = culprit or (joined, error)
        raise invalid_value(
            key,
            element,
            f"{found}. Each element of the list must be a valid regular expression. Commas "
            "always separate elements.",
        ) from error


def _culprit(elements: Sequence[str]) -> tuple[str, JavaRegexError] | None:
    """Return the first element that is invalid by itself, and its error."""
    for element in elements:
        try:
            compile_java_regex(element)
        except JavaRegexError as error:
            return element, error
    return None


class _Filter:
    def __init__(self, props: Mapping[str, str]) -> None:
        """`props`: the connector's flat Java properties."""
        self.props = props


class TopicFilter(_Filter, ABC):
    """Selects the topics to mirror by name. The constructor of a custom filter takes the
    connector's properties."""

    @abstractmethod
    def should_replicate_topic(self, topic: str) -> bool: ...

    def why_not(self, topic: str) -> str:
        """Explain to users why a topic is not mirrored."""
        return f"{type(self).__name__} excludes it"


class GroupFilter(_Filter, ABC):
    """Selects, by group ID, the groups whose offsets are translated."""

    @abstractmethod
    def should_replicate_group(self, group: str) -> bool: ...


class ConfigPropertyFilter(_Filter, ABC):
    """Selects the topic configs that are copied."""

    @abstractmethod
    def should_replicate_config_property(self, name: str) -> bool: ...

    def should_replicate_source_default(self, name: str) -> bool:
        """Whether to set the source's default of `name` on the target when the source topic has no
        value of its own."""
        return False


class DefaultTopicFilter(TopicFilter):
    """Selects topics that match `topics` and do not match `topics.exclude`."""

    def __init__(self, props: Mapping[str, str]) -> None:
        super().__init__(props)
        self.include = PatternList.from_key(SOURCE_CONFIG_DEF, "topics", props)
        self.exclude = PatternList.from_key(SOURCE_CONFIG_DEF, "topics.exclude", props)

    def should_replicate_topic(self, topic: str) -> bool:
        return self.include.matches(topic) and not self.exclude.matches(topic)

    def why_not(self, topic: str) -> str:
        excluding = self.exclude.matching(topic)
        if excluding is not None:
            return f"{excluding} in topics.exclude matches it"
        return (
            "no element of topics matches it "
            f"({', '.join(self.include.elements) or 'topics is empty'})"
        )


class DefaultGroupFilter(GroupFilter):
    """Selects groups that match `groups` and do not match `groups.exclude`."""

    def __init__(self, props: Mapping[str, str]) -> None:
        super().__init__(props)
        self.include = PatternList.from_key(CHECKPOINT_CONFIG_DEF, "groups", props)
        self.exclude = PatternList.from_key(CHECKPOINT_CONFIG_DEF, "groups.exclude", props)

    def should_replicate_group(self, group: str) -> bool:
        return self.include.matches(group) and not self.exclude.matches(group)


class DefaultConfigPropertyFilter(ConfigPropertyFilter):
    """Selects configs that do not match `config.properties.exclude`. Copies the source's defaults
    only with `use.defaults.from=source`."""

    def __init__(self, props: Mapping[str, str]) -> None:
        super().__init__(props)
        self.exclude = PatternList.from_key(SOURCE_CONFIG_DEF, "config.properties.exclude", props)
        self._source_defaults = props.get("use.defaults.from") == "source"

    def should_replicate_config_property(self, name: str) -> bool:
        return not self.exclude.matches(name)

    def should_replicate_source_default(self, name: str) -> bool:
        return self._source_defaults


def topic_filter(props: Mapping[str, str]) -> TopicFilter:
    """Create the filter that `topic.filter.class` names. Raises `ConfigError`."""
    return load_configured("topic.filter.class", props, DefaultTopicFilter, TopicFilter)


def group_filter(props: Mapping[str, str]) -> GroupFilter:
    """Create the filter that `group.filter.class` names. Raises `ConfigError`."""
    return load_configured("group.filter.class", props, DefaultGroupFilter, GroupFilter)


def config_property_filter(props: Mapping[str, str]) -> ConfigPropertyFilter:
    """Create the filter that `config.property.filter.class` names. Raises `ConfigError`."""
    key = "config.property.filter.class"
    return load_configured(key, props, DefaultConfigPropertyFilter, ConfigPropertyFilter)
