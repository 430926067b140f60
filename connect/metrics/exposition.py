"""The /metrics page in Prometheus text format 0.0.4, with the metric names of existing dashboards.

        A  names of Strimzi's exporter rules, which most operators and dashboards use
    B  names of the Amazon MSK and Redpanda samples, where the target is `destination`
    C  names with the whole MBean group, as in Confluent's rules and Strimzi's reporter

Names are grouped in families. An attribute has a name in each family; a shared name appears once.
Text attributes (a state, a class) become a label of a series whose value is 1. Totals are counters
and everything else is a gauge, as in those rules.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from connect.errors import ConfigError
from connect.metrics.catalogue import (
    MIRROR_CHECKPOINT_GROUP,
    MIRROR_SOURCE_GROUP,
    PROCESS_GROUP,
    describe,
)
from connect.metrics.registry import MetricSample, MetricValue

__all__ = ["CONTENT_TYPE", "Family", "parse_families", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Family(enum.Enum):
    """A family of metric names."""

    A = "A"
    B = "B"
    C = "C"


def parse_families(texts: Sequence[str]) -> tuple[Family, ...]:
    """Return the families of the query `?family=A,B`; family A without one, because most dashboards
    use it, and three names for each value make a page three times as long.

    Raises `ConfigError` for an unknown family.
    """
    names = [name.strip().upper() for text in texts for name in text.split(",") if name.strip()]
    try:
        return tuple(Family(name) for name in dict.fromkeys(names)) or (Family.A,)
    except ValueError:
        unknown = ", ".join(name for name in names if name not in Family.__members__)
        raise ConfigError(
            f"Invalid value {unknown} for family: use A, B or C, or a list such as A,B",
            key="family",
            value=unknown,
        ) from None


def render(samples: Iterable[MetricSample], families: Sequence[Family]) -> Iterator[str]:
    """Yield the page in blocks, one for each metric name, with HELP, TYPE and all of its series."""
    groups = _by_group(samples)
    names: dict[str, dict[_Source, None]] = {}
    for group, members in groups.items():
        text, numbers = _attributes(members)
        for family in families:
            naming = _NAMINGS[family]
            for attribute in numbers:
                source = _Source(group, attribute, False, naming.labels(group))
                names.setdefault(naming.name(group, attribute), {})[source] = None
            for attribute in text:
                for name in naming.text_names(group, attribute):
                    source = _Source(group, attribute, True, naming.labels(group))
                    names.setdefault(name, {})[source] = None
    rendered: dict[tuple[str, LabelStyle], list[str]] = {}
    for name, sources in names.items():
        first = next(iter(sources))
        lines = [f"# HELP {name} {_escape_help(describe(first.group, first.attribute))}\n"]
        lines.append(f"# TYPE {name} {_type(name)}\n")
        for source in sources:
            members = groups[source.group]
            key = (source.group, source.style)
            if key not in rendered:
                rendered[key] = [source.style(sample.tags) for sample in members]
            if source.text:
                _text_lines(name, source, members, rendered[key], lines)
            else:
                _number_lines(name, source.attribute, members, rendered[key], lines)
        yield "".join(lines)


def _type(name: str) -> str:
    return "counter" if name.endswith("_total") else "gauge"


LabelStyle = Callable[[Mapping[str, str]], str]
"""Formats tags as labels without braces, `a="1",b="2"`. Equal functions make equal labels."""


@dataclass(frozen=True, slots=True)
class _Source:
    """The samples behind one metric name."""

    group: str
    attribute: str
    text: bool
    style: LabelStyle


def _by_group(samples: Iterable[MetricSample]) -> dict[str, list[MetricSample]]:
    """Return the samples of each group. The later of two samples with the same tags counts."""
    groups: dict[str, dict[tuple[tuple[str, str], ...], MetricSample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, {})[tuple(sample.tags.items())] = sample
    return {group: list(members.values()) for group, members in groups.items()}


def _attributes(members: Iterable[MetricSample]) -> tuple[list[str], list[str]]:
    """Return the names of text attributes and of numeric attributes, each once, in order."""
    text: dict[str, None] = {}
    numbers: dict[str, None] = {}
    for sample in members:
        for attribute, value in sample.values.items():
            if attribute in numbers or attribute in text:
                continue
            (text if isinstance(value, str) else numbers)[attribute] = None
    return list(text), list(numbers)


# Metric names.


@dataclass(frozen=True, slots=True)
class _Naming:
    """The naming rules of a family. `text_names` is empty if the family omits the attribute."""

    name: Callable[[str, str], str]
    text_names: Callable[[str, str], Sequence[str]]
    labels: Callable[[str], LabelStyle]


_INVALID = re.compile(r"[^a-zA-Z0-9_]")
_MIRROR_GROUPS = (MIRROR_SOURCE_GROUP, MIRROR_CHECKPOINT_GROUP)
_SUFFIX = "-metrics"
_CLIENT_DOMAINS = ("consumer", "producer", "admin-client")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _snake(text: str) -> str:
    return _INVALID.sub("_", text)


def _domain(group: str) -> str:
    """Return the JMX domain in which Kafka registers the group, as a prefix."""
    if group in _MIRROR_GROUPS:
        return "kafka_connect_mirror"
    if group == PROCESS_GROUP:
        return PROCESS_GROUP
    for domain in _CLIENT_DOMAINS:
        if group.startswith(f"{domain}-"):
            return f"kafka_{_snake(domain)}"
    return "kafka_connect"


def _long_name(group: str, attribute: str) -> str:
    """Return the name in family C: domain, group and attribute."""
    if group == PROCESS_GROUP:
        return f"{group}_{_snake(attribute)}"
    return f"{_domain(group)}_{_snake(group).lower()}_{_snake(attribute)}"


def _short_name(group: str, attribute: str) -> str:
    """Return the name in family A, without `-metrics` and the domain's repeated last word."""
    domain = _domain(group)
    if group in (*_MIRROR_GROUPS, PROCESS_GROUP):
        return _long_name(group, attribute)
    words = group.removesuffix(_SUFFIX)
    repeated = domain.removeprefix("kafka_").replace("_", "-")
    words = "" if words == repeated else words.removeprefix(f"{repeated}-")
    return "_".join(filter(None, (domain, _snake(words), _snake(attribute))))


def _spelled_name(group: str, attribute: str) -> str:
    """Return the name in family B: words of the connector class; other groups are named as in C."""
    if group in _MIRROR_GROUPS:
        words = _CAMEL.sub("_", group).removeprefix("Mirror_").lower()
        return f"kafka_connect_mirror_{words}_{_snake(attribute)}"
    return _long_name(group, attribute)


def _short_text_names(group: str, attribute: str) -> Sequence[str]:
    """Return the names in family A, of tasks' states and of what connectors are."""
    if (group, attribute) == ("connector-task-metrics", "status"):
        # Of earlier and later rules. Later ones use the first for the state of connectors.
        return "kafka_connect_connector_status", "kafka_connect_connector_task_status"
    if group == "connector-metrics" and attribute != "status":
        return (_short_name(group, attribute),)
    return ()


def _group_name(group: str, attribute: str) -> Sequence[str]:
    return (f"{_domain(group)}_{_snake(group).lower()}",)


def _group_and_info_names(group: str, attribute: str) -> Sequence[str]:
    """Return the names in family C: of Confluent's rules, and of Strimzi's reporter."""
    return (*_group_name(group, attribute), f"{_long_name(group, attribute)}_info")


# Label formats.

_JMX_PLAIN = re.compile(r"[\w\-%. \t]*", re.ASCII)
_JMX_QUOTED = str.maketrans({'"': '\\"', "\\": "\\\\", "*": "\\*", "?": "\\?", "\n": "\\n"})


def _jmx_value(value: str) -> str:
    """Return a tag value as in Kafka's MBean names: quoted if it has a special character."""
    if _JMX_PLAIN.fullmatch(value):
        return value
    return f'"{value.translate(_JMX_QUOTED)}"'


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _pair(name: str, value: str) -> str:
    return f'{_snake(name)}="{_escape_label(value)}"'


def _plain_labels(tags: Mapping[str, str]) -> str:
    return ",".join(_pair(name, value) for name, value in tags.items())


def _jmx_labels(tags: Mapping[str, str]) -> str:
    return ",".join(
        _pair("clientid" if name == "client-id" else name, _jmx_value(value))
        for name, value in tags.items()
    )


def _destination_labels(tags: Mapping[str, str]) -> str:
    return ",".join(
        _pair("destination" if name == "target" else name, value) for name, value in tags.items()
    )


def _labels_a(group: str) -> LabelStyle:
    # Families that share a name must share the labels, so that there is one series.
    return _jmx_labels if group.endswith(_SUFFIX) else _plain_labels


def _labels_b(group: str) -> LabelStyle:
    return _destination_labels if group == MIRROR_SOURCE_GROUP else _plain_labels


def _labels_c(group: str) -> LabelStyle:
    return _plain_labels


_NAMINGS = {
    Family.A: _Naming(_short_name, _short_text_names, _labels_a),
    Family.B: _Naming(_spelled_name, _group_name, _labels_b),
    Family.C: _Naming(_long_name, _group_and_info_names, _labels_c),
}


# Output lines.


def _number(value: float) -> str:
    if value - value == 0:  # Neither NaN nor infinite.
        return repr(value)
    if value != value:
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def _number_lines(
    name: str,
    attribute: str,
    members: Sequence[MetricSample],
    labels: Sequence[str],
    lines: list[str],
) -> None:
    for sample, inside in zip(members, labels, strict=True):
        value: MetricValue | None = sample.values.get(attribute)
        if value is None or isinstance(value, str):
            continue
        series = f"{name}{{{inside}}}" if inside else name
        lines.append(f"{series} {_number(value)}\n")


def _text_lines(
    name: str,
    source: _Source,
    members: Sequence[MetricSample],
    labels: Sequence[str],
    lines: list[str],
) -> None:
    for sample, inside in zip(members, labels, strict=True):
        value = sample.values.get(source.attribute)
        if not isinstance(value, str):
            continue
        own = _pair(source.attribute, value)
        lines.append(f"{name}{{{inside},{own}}} 1\n" if inside else f"{name}{{{own}}} 1\n")
