"""Names and labels of metrics, as existing dashboards have them, for every format.

    A  names of Strimzi's exporter rules, which most operators and dashboards use
    B  names of the Amazon MSK and Redpanda samples: those of A but for the mirror's own, with
       `destination` for the target, `clientId`, and a task's producer by connector and task
    C  names with the whole MBean group, as in Confluent's rules and Strimzi's reporter

Names are grouped in families. An attribute has a name in each family; a shared name appears once,
with the labels of all families that share it.
Text attributes (a state, a class) become a label of a series whose value is 1. Totals are counters,
histograms stay what they are, and everything else is a gauge, as in those rules.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from connect.errors import ConfigError
from connect.metrics.catalogue import (
    CONNECTOR_HEALTH_GROUP,
    MIRROR_CHECKPOINT_GROUP,
    MIRROR_FLOW_GROUP,
    MIRROR_SOURCE_GROUP,
    PROCESS_GROUP,
    PRODUCER_GROUP,
    PYTHON_GROUP,
    describe,
)
from connect.metrics.histogram import HistogramValue
from connect.metrics.registry import MetricSample, MetricValue

__all__ = ["Family", "Labels", "MetricKind", "NamedMetric", "named_metrics", "parse_families"]

Labels = Sequence[tuple[str, str]]
"""Names of labels with their values, without escapes."""

L = TypeVar("L")


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


class MetricKind(enum.Enum):
    """The type of a metric; the value is its name in Prometheus' formats."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class NamedMetric(Generic[L]):
    """One metric with its points: formatted labels, and a value. Points can be read once."""

    name: str
    description: str
    kind: MetricKind
    points: Iterator[tuple[L, float | HistogramValue]]


def named_metrics(
    samples: Iterable[MetricSample], families: Sequence[Family], labels: Callable[[Labels], L]
) -> Iterator[NamedMetric[L]]:
    """Yield each metric once. `labels` formats the labels of a series; it is called once for the
    attributes of an MBean."""
    groups = _by_group(samples)
    names: dict[str, dict[tuple[str, str, type], _Source]] = {}
    for group, members in groups.items():
        attributes = _attributes(members)
        # The later style of a name that families share has the labels of the earlier, too.
        for family in sorted(families, key=list(Family).index):
            naming = _NAMINGS[family]
            for attribute, value_type in attributes.items():
                for name, style in naming.names(group, attribute, value_type):
                    source = _Source(group, attribute, value_type, style)
                    names.setdefault(name, {})[group, attribute, value_type] = source
    formatted: dict[tuple[str, LabelStyle], list[L | None]] = {}
    for name, found in names.items():
        sources = list(found.values())
        for source in sources:
            key = (source.group, source.style)
            if key not in formatted:
                styled = (source.style(each.tags) for each in groups[source.group])
                formatted[key] = [None if each is None else labels(each) for each in styled]
        first = sources[0]
        yield NamedMetric(
            name,
            describe(first.group, first.attribute),
            _kind(name, first),
            _points(sources, groups, formatted, labels),
        )


def _points(
    sources: Iterable[_Source],
    groups: Mapping[str, list[MetricSample]],
    formatted: Mapping[tuple[str, LabelStyle], list[L | None]],
    labels: Callable[[Labels], L],
) -> Iterator[tuple[L, float | HistogramValue]]:
    for source in sources:
        members, attribute, text = groups[source.group], source.attribute, source.text
        for sample, shown in zip(members, formatted[source.group, source.style], strict=True):
            value: MetricValue | None = sample.values.get(attribute)
            if shown is None:
                continue
            if isinstance(value, str):
                if text:
                    own = (_snake(attribute), value)
                    yield labels([*(source.style(sample.tags) or ()), own]), 1
            elif value is not None and not text:
                yield shown, value


def _kind(name: str, source: _Source) -> MetricKind:
    if source.value_type is HistogramValue:
        return MetricKind.HISTOGRAM
    return MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE


LabelStyle = Callable[[Mapping[str, str]], Labels | None]
"""Turns tags into labels; None: the series is not shown. Equal functions make equal labels."""


@dataclass(frozen=True, slots=True)
class _Source:
    """The samples behind one metric name."""

    group: str
    attribute: str
    value_type: type
    style: LabelStyle

    @property
    def text(self) -> bool:
        return self.value_type is str


def _by_group(samples: Iterable[MetricSample]) -> dict[str, list[MetricSample]]:
    """Return the samples of each group. The later of two samples with the same tags counts."""
    groups: dict[str, dict[tuple[tuple[str, str], ...], MetricSample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, {})[tuple(sample.tags.items())] = sample
    return {group: list(members.values()) for group, members in groups.items()}


def _attributes(members: Iterable[MetricSample]) -> dict[str, type]:
    """Return each attribute with the type of its first value, the text attributes last."""
    found: dict[str, type] = {}
    for sample in members:
        for attribute, value in sample.values.items():
            if attribute not in found:
                found[attribute] = type(value)
    return dict(sorted(found.items(), key=lambda each: each[1] is str))


# Metric names.


@dataclass(frozen=True, slots=True)
class _Naming:
    """The naming rules of a family. `text_names` is empty if the family omits the attribute.
    `more` adds names with labels of their own."""

    name: Callable[[str, str], str]
    text_names: Callable[[str, str], Sequence[str]]
    labels: Callable[[str], LabelStyle]
    more: Callable[[str, str], Sequence[tuple[str, LabelStyle]]] = lambda *_: ()

    def names(
        self, group: str, attribute: str, value_type: type
    ) -> Sequence[tuple[str, LabelStyle]]:
        style = self.labels(group)
        if value_type is str:
            return [(name, style) for name in self.text_names(group, attribute)]
        return [(self.name(group, attribute), style), *self.more(group, attribute)]


_INVALID = re.compile(r"[^a-zA-Z0-9_]")
_MIRROR_GROUPS = (MIRROR_SOURCE_GROUP, MIRROR_CHECKPOINT_GROUP)
_SUFFIX = "-metrics"
_CLIENT_DOMAINS = ("consumer", "producer", "admin-client")
_OWN_PREFIXES = {
    PROCESS_GROUP: PROCESS_GROUP,
    PYTHON_GROUP: PYTHON_GROUP,
    CONNECTOR_HEALTH_GROUP: "kafka_connect_connector",
    MIRROR_FLOW_GROUP: "kafka_connect_mirror_flow",
}
"""Groups that Kafka does not have; their names are the same in all families."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _snake(text: str) -> str:
    return _INVALID.sub("_", text)


def _domain(group: str) -> str:
    """Return the JMX domain in which Kafka registers the group, as a prefix."""
    if group in _MIRROR_GROUPS:
        return "kafka_connect_mirror"
    for domain in _CLIENT_DOMAINS:
        if group.startswith(f"{domain}-"):
            return f"kafka_{_snake(domain)}"
    return "kafka_connect"


def _long_name(group: str, attribute: str) -> str:
    """Return the name in family C: domain, group and attribute."""
    if group in _OWN_PREFIXES:
        return f"{_OWN_PREFIXES[group]}_{_snake(attribute)}"
    return f"{_domain(group)}_{_snake(group).lower()}_{_snake(attribute)}"


def _short_name(group: str, attribute: str) -> str:
    """Return the name in family A, without `-metrics` and the domain's repeated last word."""
    if group in _MIRROR_GROUPS or group in _OWN_PREFIXES:
        return _long_name(group, attribute)
    domain = _domain(group)
    words = group.removesuffix(_SUFFIX)
    repeated = domain.removeprefix("kafka_").replace("_", "-")
    words = "" if words == repeated else words.removeprefix(f"{repeated}-")
    return "_".join(filter(None, (domain, _snake(words), _snake(attribute))))


def _spelled_name(group: str, attribute: str) -> str:
    """Return the name in family B: words of the connector class; other groups are named as in A."""
    if group in _MIRROR_GROUPS:
        words = _CAMEL.sub("_", group).removeprefix("Mirror_").lower()
        return f"kafka_connect_mirror_{words}_{_snake(attribute)}"
    return _short_name(group, attribute)


def _connector_producer_names(group: str, attribute: str) -> Sequence[tuple[str, LabelStyle]]:
    """Return the further name in Redpanda's rules of the attributes of a task's producer."""
    if group != PRODUCER_GROUP:
        return ()
    return ((f"kafka_connector_producer_{_snake(attribute)}", _task_labels),)


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


def _plain_labels(tags: Mapping[str, str]) -> Labels:
    return [(_snake(name), value) for name, value in tags.items()]


def _jmx_labels(tags: Mapping[str, str]) -> Labels:
    return [
        ("clientid" if name == "client-id" else _snake(name), _jmx_value(value))
        for name, value in tags.items()
    ]


def _jmx_labels_of_both(tags: Mapping[str, str]) -> Labels:
    """Return the labels of A and B: these write `clientId`."""
    client = tags.get("client-id")
    both = _jmx_labels(tags)
    return both if client is None else [*both, ("clientId", _jmx_value(client))]


_TASK_PRODUCER = re.compile(r"connector-producer-(.+)-(\d+)")


def _task_labels(tags: Mapping[str, str]) -> Labels | None:
    """Return the connector and task whose producer has this client ID, and all other tags."""
    found = _TASK_PRODUCER.fullmatch(tags["client-id"])
    if found is None:
        return None
    others = [(name, value) for name, value in tags.items() if name != "client-id"]
    return [("connector", _jmx_value(found[1])), ("task", found[2]), *others]


def _destination_labels(tags: Mapping[str, str]) -> Labels:
    return [
        ("destination" if name == "target" else _snake(name), value) for name, value in tags.items()
    ]


def _labels_a(group: str) -> LabelStyle:
    # Families that share a name must have one series of it: B's labels include these.
    return _jmx_labels if group.endswith(_SUFFIX) else _plain_labels


def _labels_b(group: str) -> LabelStyle:
    if group == MIRROR_SOURCE_GROUP:
        return _destination_labels
    return _jmx_labels_of_both if group.endswith(_SUFFIX) else _plain_labels


def _labels_c(group: str) -> LabelStyle:
    return _plain_labels


_NAMINGS = {
    Family.A: _Naming(_short_name, _short_text_names, _labels_a),
    Family.B: _Naming(_spelled_name, _short_text_names, _labels_b, _connector_producer_names),
    Family.C: _Naming(_long_name, _group_and_info_names, _labels_c),
}
