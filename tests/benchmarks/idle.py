"""Measures what a mirror of very many partitions costs while nothing happens."""

from __future__ import annotations

import threading

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import DeadlineExceeded
from tests.benchmarks.arena import Arena, Mirror, delete_topics
from tests.benchmarks.results import IdleResult
from tests.benchmarks.systems import System
from tests.benchmarks.watching import EndOffsets
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic, unique

__all__ = ["measure_idle"]

_TOPIC_PARTITIONS = 1_000
_READY_S = 600.0
_SETTLE_S = 30.0
_MEASURED_S = 60.0
_WATCH_S = 0.5


def measure_idle(arena: Arena, system: System, partitions: int) -> IdleResult:
    """`partitions` are spread over topics of 1,000."""
    prefix = unique("idle")
    sizes = [
        min(_TOPIC_PARTITIONS, partitions - first)
        for first in range(0, partitions, _TOPIC_PARTITIONS)
    ]
    topics = {f"{prefix}-{number:03}": size for number, size in enumerate(sizes)}
    try:
        for topic, size in topics.items():
            create_topic(arena.source, name=topic, partitions=size)
            produce(arena.source, topic, [Record(b"last", partition=size - 1)])
        with arena.mirror(system, f"{prefix}-.*") as mirror:
            _wait_until_ready(arena, mirror, topics)
            ready_s = SYSTEM_CLOCK.monotonic() - mirror.launched
            waiting = threading.Event()
            waiting.wait(_SETTLE_S)
            before, started = mirror.use.now(), SYSTEM_CLOCK.monotonic()
            waiting.wait(_MEASURED_S)
            after, seconds = mirror.use.now(), SYSTEM_CLOCK.monotonic() - started
        share = (after.cpu_s - before.cpu_s) / seconds
        return IdleResult(system.name, partitions, ready_s, share * 100, after.rss_mib)
    finally:
        delete_topics(arena.source, set(topics))


def _wait_until_ready(arena: Arena, mirror: Mirror, topics: dict[str, int]) -> None:
    deadline = Deadline(_READY_S)
    waiting = threading.Event()
    for topic, size in topics.items():
        with EndOffsets(arena.target, mirror.remote(topic), size) as ends:
            while not ends.total():
                mirror.check()
                if deadline.expired():
                    raise DeadlineExceeded(f"{topic} was not copied; see {mirror.process.log}")
                waiting.wait(_WATCH_S)
