"""The table of the permissions page, made from `connectors.mirrormaker.required_permissions`.

The text around it is written by hand.
"""

from __future__ import annotations

from connect.clients.permissions import Operation, Resource
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC
from connectors.mirrormaker.required_permissions import (
    Feature,
    FlowNames,
    Pattern,
    required_permissions,
)

__all__ = ["NAMES", "renewed"]

_BEGIN = "<!-- From here made by `python -m deploy.site`; do not edit. -->"
_END = "<!-- Until here. -->"

NAMES = FlowNames(
    source="A",
    target="B",
    topics=(Pattern("<topics>"),),
    copies=(Pattern("A.", prefixed=True),),
    groups=(Pattern("<groups>"),),
    worker_group="A-mm2",
    worker_topics=("mm2-offsets.A.internal", "mm2-status.A.internal", "mm2-configs.A.internal"),
    offset_syncs="mm2-offset-syncs.B.internal",
    offset_map="mm2-offset-map.B.internal",
    provenance=PROVENANCE_TOPIC,
    offsets_side="source",
    checkpoints="A.checkpoints.internal",
    heartbeats="heartbeats",
    copied_heartbeats="A.heartbeats",
    quarantine="<quarantine>",
)
"""Of the page's flow."""


def _table() -> str:
    """Return the permissions of a flow `A->B` as a Markdown table."""
    rows: dict[tuple[Feature, str, Resource, Pattern], list[Operation]] = {}
    for feature in Feature:
        for each in required_permissions(NAMES, {feature}):
            key = (feature, each.cluster, each.resource, each.pattern)
            rows.setdefault(key, []).append(each.operation)
    lines = ["| cluster | resource | name | operations | for |", "|---|---|---|---|---|"]
    for (feature, cluster, resource, pattern), operations in rows.items():
        name = f"`{pattern}` " if pattern.name else ""
        done = ", ".join(map(str, operations))
        lines.append(f"| {cluster} | {resource.value} | {name}| {done} | {feature.value} |")
    return "\n".join(lines)


def renewed(page: str) -> str:
    """Return the page with the current table. Raises `ValueError` if its marks are missing."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"The page has no lines {_BEGIN} and {_END}")
    return f"{before}{begin}\n\n{_table()}\n\n{end}{after}"
