"""Panels of people's dashboards, and which of them a metrics page has no data for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from tests.support.docs.pages import DOCS
from tests.support.served import page

__all__ = ["Panel", "empty_panels", "listed_panels"]


@dataclass(frozen=True)
class Panel:
    """A panel: the series of its query, the labels that the query compares with regular
    expressions, and those that it only groups by."""

    title: str
    series: Sequence[str]
    matched: Mapping[str, str] = field(default_factory=dict)
    grouped: Sequence[str] = ()


def empty_panels(listener: str, panels: Sequence[Panel], family: str = "A") -> set[str]:
    """The titles of panels with a series that finds nothing on the page of this family."""
    shown: dict[str, list[Mapping[str, str]]] = {}
    for each in text_string_to_metric_families(page(listener, f"/metrics?family={family}")):
        for sample in each.samples:
            shown.setdefault(sample.name, []).append(sample.labels)

    def found(panel: Panel, name: str) -> bool:
        return any(
            labels.keys() >= {*panel.matched, *panel.grouped}
            and all(re.fullmatch(text, labels[key]) for key, text in panel.matched.items())
            for labels in shown.get(name, ())
        )

    return {panel.title for panel in panels if not all(found(panel, name) for name in panel.series)}


def listed_panels(section: str) -> set[str]:
    """The panels in the table of this section of the page on metrics."""
    text = (DOCS / "reference" / "metrics.md").read_text()
    found = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| ([^|]+?) \|", found, re.M)) - {"panel", "---"}
