"""Finds flows that would replicate records in a loop because their policies keep topic names.

With the DefaultReplicationPolicy, the name of a copy shows its source cluster. If names are kept,
records of a topic that is mirrored from A to B and from B to A would be copied endlessly. Such a
loop is an error if both flows have the same topic lists. If the lists differ it is only a warning,
because they may be disjoint. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connectors.mirror.filters import DefaultTopicFilter, topic_filter
from connectors.mirror.replication_policy import replication_policy

__all__ = ["Loop", "find_loops", "keeps_names"]

PROBE = "any-topic"
"""A topic name that no replication policy treats specially."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Flows that lead from `source` through other clusters back to it. `certain`: they choose the
    same topics, so all these topics would loop."""

    source: str
    target: str
    certain: bool

    def __str__(self) -> str:
        both = f"{self.source}->{self.target} and the way back from {self.target} to {self.source}"
        if self.certain:
            return (
                f"{both} keep topic names and choose the same topics, so every record would be "
                "copied back and forth without end. Use the DefaultReplicationPolicy, or give "
                "the flows disjoint topics."
            )
        return (
            f"{both} keep topic names, so a topic that both choose would be copied back and "
            "forth without end. Make sure that their topics are disjoint."
        )


def keeps_names(props: Mapping[str, str]) -> bool:
    """Whether copies made by a connector with these properties keep their source's name."""
    alias = props.get("source.cluster.alias", "")
    return replication_policy(props).remote_topic(alias, PROBE) == PROBE


def find_loops(flows: Mapping[tuple[str, str], Mapping[str, str]]) -> list[Loop]:
    """Return the loops among these flows. Keys: (source, target); values: source connector
    properties."""
    keeping = {flow: _choice(props) for flow, props in flows.items() if keeps_names(props)}
    loops: list[Loop] = []
    for (source, target), choice in sorted(keeping.items()):
        # A loop is reported once, by the flow with the alphabetically first source.
        others = {flow: other for flow, other in keeping.items() if flow[0] > source}
        alike = [flow for flow, other in others.items() if other is not None and other == choice]
        if _leads(target, source, alike):
            loops.append(Loop(source, target, certain=True))
        elif _leads(target, source, others):
            loops.append(Loop(source, target, certain=False))
    return loops


def _choice(props: Mapping[str, str]) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the topic lists of a flow; None for a custom filter."""
    chosen = topic_filter(props)
    if type(chosen) is not DefaultTopicFilter:
        return None
    return frozenset(chosen.include.elements), frozenset(chosen.exclude.elements)


def _leads(start: str, goal: str, flows: Iterable[tuple[str, str]]) -> bool:
    """Whether these flows lead from one cluster to the other."""
    edges = list(flows)
    reached, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        for source, target in edges:
            if source == here and target not in reached:
                reached.add(target)
                waiting.append(target)
    return goal in reached
