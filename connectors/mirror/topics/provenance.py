"""Tracks where the records of a topic came from, over any number of flows, to find loops
independently of names.

Each flow keeps one record in the topic `mm2-provenance.internal` of its target: which topics it
copies, from which topics of which cluster, and where those came from. Clusters are compared by
their ids, so neither names nor aliases matter. A flow copies no topic whose records came from its
target. Pure; `provenance_topic` reads and writes the records.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from connect.errors import CorruptData

__all__ = ["Copied", "FlowRecord", "Hop", "ancestry", "flow_key", "loop_detail", "loop_of"]

_VERSION = 1


class Hop(NamedTuple):
    """A topic that records passed through. `cluster`: the cluster's id. `since_ms`: since when the
    flow that read them there copies the topic."""

    cluster: str
    alias: str
    topic: str
    since_ms: int


class Copied(NamedTuple):
    """How a topic of a target came there. `topic`: its name on the source. `hops`: where the
    source's records came from, the nearest first."""

    topic: str
    since_ms: int
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """One flow's record. `topics`: by name on the target. It counts until `valid_ms` after
    `renewed_ms`, so that a flow that is gone does not stand in another's way."""

    cluster: str
    alias: str
    renewed_ms: int
    valid_ms: int
    topics: Mapping[str, Copied]

    def live(self, now_ms: int) -> bool:
        return now_ms < self.renewed_ms + self.valid_ms

    def encode(self) -> bytes:
        """Return compressed JSON, because names repeat much."""
        document = {
            "version": _VERSION,
            "cluster": self.cluster,
            "alias": self.alias,
            "renewed": self.renewed_ms,
            "valid": self.valid_ms,
            "topics": self.topics,
        }
        return zlib.compress(json.dumps(document, separators=(",", ":")).encode())

    @classmethod
    def decode(cls, value: bytes) -> FlowRecord | None:
        """Return a record; None for one of a later version. Raises `CorruptData`."""
        try:
            document: dict[str, Any] = json.loads(zlib.decompress(value))
            if document["version"] != _VERSION:
                return None
            return cls(
                document["cluster"],
                document["alias"],
                document["renewed"],
                document["valid"],
                {
                    name: Copied(topic, since, tuple(Hop(*hop) for hop in hops))
                    for name, (topic, since, hops) in document["topics"].items()
                },
            )
        except (zlib.error, ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"not a record of a flow: {error}") from error


def flow_key(source_alias: str, target_alias: str, connector: str) -> bytes:
    """Return the key of a flow's record."""
    key = {"source": source_alias, "target": target_alias, "connector": connector}
    return json.dumps(key, separators=(",", ":")).encode()


def ancestry(
    records: Iterable[FlowRecord], topic: str, cluster: str, now_ms: int
) -> tuple[Hop, ...]:
    """Return where the records of a topic came from. `records`: those on its cluster, whose id is
    `cluster`. Empty for a topic that no flow writes. Each cluster is contained once."""
    found: dict[str, Hop] = {}
    for record in sorted(records, key=lambda each: each.cluster):
        copied = record.topics.get(topic)
        if copied is None or not record.live(now_ms):
            continue
        first = Hop(record.cluster, record.alias, copied.topic, copied.since_ms)
        for hop in (first, *copied.hops):
            if hop.cluster != cluster:
                found.setdefault(hop.cluster, hop)
    return tuple(found.values())


def loop_of(hops: Iterable[Hop], target_cluster: str) -> Hop | None:
    """Return the hop at the target; None if the records did not come from there."""
    return next((hop for hop in hops if hop.cluster == target_cluster), None)


def loop_detail(hop: Hop, target_alias: str) -> str:
    """Explain a loop to users."""
    name = target_alias if hop.alias == target_alias else f"{target_alias} (there {hop.alias})"
    return (
        f"its records come from topic {hop.topic} of {name}, the target, and would be copied "
        "in an endless loop. Exclude it from this flow's topics, or disable the flow that "
        "copies it here"
    )
