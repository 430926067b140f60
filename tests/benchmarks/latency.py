"""Measures how long a record takes from a producer at the source to a consumer at the target."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import DeadlineExceeded
from tests.benchmarks.arena import Arena, Mirror, delete_topics
from tests.benchmarks.pacer import STAMP
from tests.benchmarks.results import LatencyResult, StartResult
from tests.benchmarks.systems import System
from tests.benchmarks.watching import EndOffsets
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic, unique

__all__ = [
    "BEHIND",
    "BUSY",
    "NO_MIRROR",
    "QUIET",
    "Behind",
    "Pace",
    "measure_behind",
    "measure_busy",
    "measure_direct",
    "measure_latency",
    "measure_start",
]

NO_MIRROR = "none"
BUSY, QUIET = "-busy", "-quiet"
"""Parts of systems' names, of those that are measured in turns beside busy threads and without."""
BEHIND = "-behind"
"""The end of systems' names, of those that also catch up. The source's own consumer, which reads
the same records at the same time, is `none-SYSTEM-behind`."""
_START_S = 90.0
_GRACE_S = 30.0
_POLL_S = 0.2
_WATCH_S = 0.01
_BESIDE = 500
_CATCH_UP_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Pace:
    """`warm_up_s` are not counted: Java compiles its code then."""

    rate: int = 1_000
    warm_up_s: int = 10
    counted_s: int = 30

    @property
    def total(self) -> int:
        return self.rate * (self.warm_up_s + self.counted_s)


def _first_record(arena: Arena, mirror: Mirror, topic: str) -> float:
    """Wait until the copy has a record; seconds since the launch."""
    deadline = Deadline(_START_S)
    waiting = threading.Event()
    with EndOffsets(arena.target, mirror.remote(topic), 1) as ends:
        while not ends.total():
            mirror.check()
            if deadline.expired():
                raise DeadlineExceeded(f"Nothing was copied in time; see {mirror.process.log}")
            waiting.wait(_WATCH_S)
    return SYSTEM_CLOCK.monotonic() - mirror.launched


def measure_start(arena: Arena, system: System, turn: int) -> StartResult:
    """From the launch of a mirror to its first record at the target."""
    topic = create_topic(arena.source, "start")
    try:
        produce(arena.source, topic, [Record(b"first")])
        with arena.mirror(system, topic) as mirror:
            return StartResult(system.name, turn, _first_record(arena, mirror, topic))
    finally:
        delete_topics(arena.source, {topic})


def measure_latency(arena: Arena, system: System, pace: Pace, turn: int) -> LatencyResult:
    """Through a mirror, which copied its first record before."""
    topic = create_topic(arena.source, "latency")
    try:
        produce(arena.source, topic, [Record(b"first")])
        with arena.mirror(system, topic) as mirror:
            _first_record(arena, mirror, topic)
            before, started = mirror.use.now(), SYSTEM_CLOCK.monotonic()
            delays = _delays(arena.source, topic, arena.target, mirror.remote(topic), pace)
            seconds = SYSTEM_CLOCK.monotonic() - started
            cores = (mirror.use.now().cpu_s - before.cpu_s) / seconds
        return _result(system.name, turn, pace, delays, cores)
    finally:
        delete_topics(arena.source, {topic})


def measure_busy(arena: Arena, system: System, pace: Pace, turn: int) -> LatencyResult:
    """As `measure_latency`, while the mirror also has `_BESIDE` idle partitions, lists the topics
    of both clusters every second, keeps a history, and its metrics and health are read twice a
    second."""
    beside = create_topic(arena.source, partitions=_BESIDE)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{found.getsockname()[1]}"

    def tuning(alias: str, codec: str) -> Mapping[str, str]:
        own = system.tuning(alias, codec)
        return {
            **own,
            "metrics.listener": url,
            f"{alias}->target.topics": f"latency.*,{beside}",
            "refresh.topics.interval.seconds": "1",
        }

    busy = replace(system, name=f"{system.name}{BUSY}", tuning=tuning)
    reader = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.page_reader", url])
    try:
        return measure_latency(arena, busy, pace, turn)
    finally:
        reader.kill()
        reader.wait(_GRACE_S)
        delete_topics(arena.source, {beside})


class Behind(NamedTuple):
    """The same records, as a consumer of the source had them and as one of the target."""

    source: LatencyResult
    target: LatencyResult


def measure_behind(
    arena: Arena, system: System, pace: Pace, topic: str, partitions: int, records: int, turn: int
) -> Behind:
    """As `measure_latency`, while the mirror also catches up with `topic`, which holds `records`
    records. What is sent once it has done so does not count. Raises `RuntimeError` if that is
    everything."""

    def tuning(alias: str, codec: str) -> Mapping[str, str]:
        return {**system.tuning(alias, codec), f"{alias}->target.topics": f"{live},{topic}"}

    live = create_topic(arena.source, "latency")
    try:
        produce(arena.source, live, [Record(b"first")])
        with arena.mirror(replace(system, tuning=tuning), live) as mirror:
            _first_record(arena, mirror, live)
            before, started = mirror.use.now(), SYSTEM_CLOCK.monotonic()
            with (
                _behind(arena, mirror, topic, partitions, records) as behind,
                ThreadPoolExecutor(1) as beside,
            ):
                own = beside.submit(_read, arena.source, live, pace, behind)
                delays = _delays(
                    arena.source, live, arena.target, mirror.remote(live), pace, behind
                )
                at_source = own.result(_GRACE_S)
            seconds = SYSTEM_CLOCK.monotonic() - started
            cores = (mirror.use.now().cpu_s - before.cpu_s) / seconds
        if not delays or not at_source:
            raise RuntimeError("The mirror had caught up before a live record counted")
        return Behind(
            _result(f"{NO_MIRROR}-{system.name}{BEHIND}", turn, pace, at_source, 0.0),
            _result(f"{system.name}{BEHIND}", turn, pace, delays, cores),
        )
    finally:
        delete_topics(arena.source, {live})


@contextmanager
def _behind(
    arena: Arena, mirror: Mirror, topic: str, partitions: int, records: int
) -> Iterator[Callable[[int], bool]]:
    """Whether the copy of a topic still lacked records at a time, in monotonic nanoseconds; looked
    up on a thread of its own."""
    over = threading.Event()
    end: list[int] = []

    def look() -> None:
        with EndOffsets(arena.target, mirror.remote(topic), partitions) as ends:
            while ends.total() < records and not over.wait(_CATCH_UP_POLL_S):
                continue
        end.append(time.monotonic_ns())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield lambda at: not end or at < end[0]
    finally:
        over.set()
        watcher.join(_GRACE_S)


def measure_direct(arena: Arena, pace: Pace, turn: int) -> LatencyResult:
    """Without a mirror, from the source: what producer, broker and consumer take by themselves."""
    topic = create_topic(arena.source, "latency")
    try:
        produce(arena.source, topic, [Record(b"first")])
        delays = _delays(arena.source, topic, arena.source, topic, pace)
        return _result(NO_MIRROR, turn, pace, delays, 0.0)
    finally:
        delete_topics(arena.source, {topic})


def _result(system: str, turn: int, pace: Pace, delays: list[float], cores: float) -> LatencyResult:
    ordered = sorted(delays)

    def percentile(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    return LatencyResult(
        system=system,
        round=turn,
        rate=pace.rate,
        records=len(ordered),
        p50_ms=percentile(0.5),
        p99_ms=percentile(0.99),
        p999_ms=percentile(0.999),
        mirror_cores=cores,
    )


def _delays(
    source: str,
    topic: str,
    target: str,
    remote: str,
    pace: Pace,
    counts: Callable[[int], bool] = lambda _sent: True,
) -> list[float]:
    """Milliseconds of every counted record that is produced now, at a consumer of its copy; see
    `_read`."""
    arguments = [source, topic, str(pace.rate), str(pace.total)]
    pacer = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.pacer", *arguments])
    try:
        delays = _read(target, remote, pace, counts)
        if len(delays) == pace.rate * pace.counted_s and pacer.wait(_GRACE_S):
            raise RuntimeError("Records of the pacing producer were not delivered")
        return delays
    finally:
        pacer.kill()
        pacer.wait(_GRACE_S)


def _read(servers: str, topic: str, pace: Pace, counts: Callable[[int], bool]) -> list[float]:
    """Milliseconds of every counted record. The consumer polls one record at a time, until one was
    sent when it does not count."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": unique("latency"),
            "enable.auto.commit": False,
            "socket.nagle.disable": True,
        }
    )
    delays: list[float] = []
    skipped = pace.rate * pace.warm_up_s
    deadline = Deadline(pace.warm_up_s + pace.counted_s + _GRACE_S)
    try:
        consumer.assign([TopicPartition(topic, 0, 1)])  # after the first record
        for _ in range(pace.total):
            message = None
            while message is None:
                if deadline.expired():
                    raise DeadlineExceeded(f"{topic} did not get all records in time")
                message = consumer.poll(_POLL_S)
            now = time.monotonic_ns()
            error, value = message.error(), message.value()
            if error is not None or not isinstance(value, bytes):
                raise KafkaException(error)
            number, sent = STAMP.unpack_from(value)
            if not counts(sent):
                return delays
            if number >= skipped:
                delays.append((now - sent) / 1e6)
        return delays
    finally:
        consumer.close()
