"""The table of the permissions page, made from `connectors.mirrormaker.required_permissions`.

The text around it is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from connect.clients.permissions import Operation, Resource
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC
from connectors.mirrormaker.required_permissions import (
    OTHERS,
    Feature,
    FlowNames,
    Pattern,
    required_permissions,
)

__all__ = ["MIRRORMAKER_1_NAMES", "NAMES", "WORKER_NAMES", "renewed"]

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
    others_offsets="connect-offsets",
)
"""Of the page's flow."""

WORKER_NAMES = replace(
    NAMES,
    topics=(Pattern("<topics>"),),
    copies=(Pattern("<topics>"),),
    worker_group="<group.id>",
    worker_topics=("<offsets topic>", "<status topic>", "<config topic>"),
    sink_group="connect-<name>",
    dead_letters="<dead letters>",
)
"""Of a Connect cluster that stores its state on B."""

MIRRORMAKER_1_NAMES = replace(NAMES, copies=(Pattern("<topics>"),), worker_group="<group.id>")
"""Of a MirrorMaker 1 from A to B."""

_OF_WORKERS = (
    Feature.WORKER,
    Feature.EXACTLY_ONCE,
    Feature.SINK,
    Feature.DEAD_LETTERS,
    Feature.SOURCE,
)


def _tables() -> str:
    flows = [each for each in Feature if each not in OTHERS]
    return "\n\n".join(
        [
            _table(NAMES, flows),
            "Workers of a Connect cluster, in distributed mode:",
            _table(WORKER_NAMES, _OF_WORKERS),
            "MirrorMaker 1 (`kafka-mirror-maker`):",
            _table(MIRRORMAKER_1_NAMES, [Feature.MIRRORMAKER_1]),
        ]
    )


def _table(names: FlowNames, features: Iterable[Feature]) -> str:
    """Return the permissions that features need as a Markdown table."""
    rows: dict[tuple[Feature, str, Resource, Pattern], list[Operation]] = {}
    for feature in features:
        for each in required_permissions(names, {feature}):
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
    return f"{before}{begin}\n\n{_tables()}\n\n{end}{after}"
