"""The /metrics page, in Prometheus' text format 0.0.4 or in OpenMetrics 1.0.

They differ in the names of counters on the TYPE line, in escapes, and in OpenMetrics' last line,
without which a scraper refuses a page that was cut off.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from connect.metrics.histogram import HistogramValue
from connect.metrics.naming import Family, Labels, MetricKind, NamedMetric, named_metrics
from connect.metrics.registry import MetricSample

__all__ = ["PageFormat", "render"]


class PageFormat(enum.Enum):
    """A format of the page; the value is its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def render(
    samples: Iterable[MetricSample],
    families: Sequence[Family],
    page_format: PageFormat = PageFormat.TEXT,
) -> Iterator[str]:
    """Yield the page in blocks, one for each metric name, with HELP, TYPE and all of its series."""
    for metric in named_metrics(samples, families, _label_text):
        lines = _heading(metric, page_format)
        for labels, value in metric.points:
            if isinstance(value, HistogramValue):
                _histogram_lines(metric.name, labels, value, lines)
            else:
                series = f"{metric.name}{{{labels}}}" if labels else metric.name
                lines.append(f"{series} {_number(value)}\n")
        yield "".join(lines)
    if page_format is PageFormat.OPEN_METRICS:
        yield "# EOF\n"


def _heading(metric: NamedMetric[str], page_format: PageFormat) -> list[str]:
    name, text = metric.name, metric.description.replace("\\", "\\\\").replace("\n", "\\n")
    if page_format is PageFormat.OPEN_METRICS:
        text = text.replace('"', '\\"')
        if metric.kind is MetricKind.COUNTER:
            name = name.removesuffix("_total")
    return [f"# HELP {name} {text}\n", f"# TYPE {name} {metric.kind.value}\n"]


def _histogram_lines(name: str, labels: str, value: HistogramValue, lines: list[str]) -> None:
    before = f"{labels}," if labels else ""
    totals = list(accumulate(value.counts))
    bounds = [*map(_number, value.bounds), "+Inf"]
    for bound, total in zip(bounds, totals, strict=True):
        lines.append(f'{name}_bucket{{{before}le="{bound}"}} {total}\n')
    inside = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_sum{inside} {_number(value.total)}\n")
    lines.append(f"{name}_count{inside} {totals[-1]}\n")


def _label_text(labels: Labels) -> str:
    """Return the labels without braces, `a="1",b="2"`."""
    return ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels)


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if value - value == 0:  # Neither NaN nor infinite.
        return repr(value)
    if value != value:
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"
