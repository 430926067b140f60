"""One direction of a trial: its topics, and the evidence about them once the trial has ended."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.support.chaos.evidence import Bounds, Case, Manner
from tests.support.chaos.journal import Fate, Journal, Written
from tests.support.chaos.logs import Mark, Page, is_page, marks, parse_page, read
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.topics import end_offsets, unique

__all__ = ["Direction", "Reports"]

_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "2000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "3000",
}
_GONE = re.compile(r" (\S+)-(\d+): the source no longer has offsets (\d+) to (\d+)")
_AGAIN = re.compile(
    r" (\S+)-(\d+): the source(?:'s topic was deleted and created again; offset (\d+)"
    r"| ends before offset (\d+), which)"
)
_TARGET = re.compile(r"the target lost |the target's topic \S+ was deleted")
_REQUEST_S = 30.0
_STORE_S = 5.0
"""Flush interval, and what else a stored offset takes where nothing is wrong."""


@dataclass
class Reports:
    """What the workers' logs report: ranges that were deleted before they were copied; where a
    topic was found to be created again, the offset that was next; whether the target lost
    anything."""

    gone: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    created_again: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    target_lost: bool = False

    @classmethod
    def of(cls, logs: Iterable[Path]) -> Reports:
        found = cls()
        for log in logs:
            text = log.read_text(errors="replace")
            found.target_lost |= _TARGET.search(text) is not None
            for match in _GONE.finditer(text):
                where, span = (match[1], int(match[2])), (int(match[3]), int(match[4]))
                found.gone.setdefault(where, []).append(span)
            for match in _AGAIN.finditer(text):
                where, position = (match[1], int(match[2])), int(match[3] or match[4])
                found.created_again.setdefault(where, []).append(position)
        return found


@dataclass
class Direction:
    """Topics that are copied from one cluster to the other."""

    flow: MirroredFlow
    copies: int
    manners: dict[str, Manner] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)

    def make(self, name: str, count: int, manner: Manner = Manner.WHOLE) -> str:
        configs = _COMPACTED if manner is Manner.COMPACTED else {}
        topic = self.flow.topic(name, partitions=count, replication=self.copies, configs=configs)
        self.manners[topic], self.partitions[topic] = manner, count
        return topic

    def of(self, *topics: str) -> list[tuple[str, int]]:
        return [(topic, n) for topic in topics for n in range(self.partitions[topic])]

    def ends(self) -> dict[tuple[str, int], int]:
        return {
            (topic, number): end
            for topic in self.partitions
            for number, end in end_offsets(self.flow.source_servers, topic).items()
        }

    def cases(
        self,
        journal: Journal,
        reports: Reports,
        *,
        exactly_once: bool,
        restarts: int,
        overlapping: bool,
        longest_s: float,
    ) -> Iterator[tuple[str, int, Case]]:
        """`longest_s`: for how long, at most, offsets could not be stored."""
        by_partition = journal.by_partition()
        for topic, number in self.of(*self.partitions):
            written = by_partition.get((topic, number), {})
            unstored = _most_within(written, longest_s + _STORE_S)
            source = marks(self.flow.source_servers, topic, number)
            case = Case(
                f"{topic}-{number}",
                self.manners[topic],
                source,
                marks(self.flow.target_servers, self.flow.remote(topic), number),
                written,
                reports.gone.get((topic, number), ()),
                self._start(topic, number),
                exactly_once,
                reports.created_again.get((topic, number), ()),
                Bounds(restarts, unstored, overlapping),
                self._hidden(topic, number, source, written),
            )
            yield topic, number, case

    def _hidden(
        self, topic: str, number: int, source: Sequence[Mark], written: Mapping[bytes, Written]
    ) -> set[bytes]:
        """The acknowledged records that the source hides from committed readers."""
        shown = {mark.value for mark in source}
        missing = {
            value
            for value, each in written.items()
            if each.fate is Fate.ACKNOWLEDGED and value not in shown
        }
        if not missing or self.manners[topic] is not Manner.WHOLE:
            return set()
        there = marks(self.flow.source_servers, topic, number, committed=False)
        return missing & {mark.value for mark in there}

    def _start(self, topic: str, number: int) -> int:
        servers = self.flow.source_servers
        consumer = Consumer({"bootstrap.servers": servers, "group.id": unique("start")})
        try:
            where = TopicPartition(topic, number)
            start: int = consumer.get_watermark_offsets(where, timeout=_REQUEST_S)[0]
            return start
        finally:
            consumer.close()

    def pages(self) -> list[Page]:
        flow = self.flow
        newest = {r.key: r.value for r in read(flow.source_servers, flow.map_topic) if r.key}
        return [
            parse_page(key, value)
            for key, value in newest.items()
            # Other records of the topic (docs/reference/offset-map.md).
            if value is not None and is_page(key)
        ]


def _most_within(written: Mapping[bytes, Written], seconds: float) -> int:
    """How many records were written within so many seconds, at most."""
    times = sorted(each.timestamp_ms for each in written.values())
    span_ms = int(seconds * 1000)
    return max((at + 1 - bisect_left(times, t - span_ms) for at, t in enumerate(times)), default=0)
