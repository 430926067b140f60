"""Whoever may validate a config cannot keep a worker from its heartbeats."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.copier.proxy import TcpProxy
from tests.support.records.topics import unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, worker_group
from tests.support.workers.java_connect import worker_properties

PROXIED = "PROXIED"
HEARTBEAT = (12).to_bytes(2, "big")
"""Its key in Kafka's protocol, which follows the four bytes of a request's size."""
LIMIT_S = 1.0
WORST = {
    "the slowest that is compiled": "(|a)" * 8_000,
    "as slow, with references": r"(a)\1" * 6_500,
    "many ranges": r"[^a-z0-9]|" * 3_200,
    "large classes": r"\p{L}" * 6_000,
    "intersections of large classes": r"[\p{L}&&\P{Lu}]" * 2_000,
    "far too long": "(a)" * 160_000,
    "a large count": "(?:a|b){1000000}",
    "repetitions inside repetitions": "(?:" * 18 + "a" + ")+" * 18,
    "the largest count that is compiled": "(?:a|b){16000}",
    "flags of many alternatives": "(?i)a|" * 5_000,
    "many topics": "|".join(f"topic-{number:06d}" for number in range(2_500)),
}


class Times(NamedTuple):
    """A moment, and the CPU time that the worker had used until then."""

    clock_s: float
    cpu_s: float


class Beats:
    """When a worker sent its heartbeats, as its way to the brokers saw them."""

    def __init__(self) -> None:
        self.at: list[Times] = []
        self.worker: psutil.Process | None = None

    def now(self) -> Times:
        used = self.worker.cpu_times() if self.worker else None
        return Times(time.monotonic(), used.user + used.system if used else 0.0)

    def saw(self, data: bytes) -> None:
        if data[4:6] == HEARTBEAT:
            self.at.append(self.now())

    def longest_gap(self, begin: Times, end: Times) -> float:
        """The longest time without a heartbeat. Of that, only as much counts as the worker used
        the CPU: a thread that compiles and keeps others waiting uses it all the time, a worker that
        waits for a busy machine does not."""
        within = [begin, *(at for at in self.at if begin < at < end), end]
        return max(
            min(after.clock_s - before.clock_s, after.cpu_s - before.cpu_s)
            for before, after in pairwise(within)
        )


@pytest.fixture
def worker(kafka: KafkaRuntime, tmp_path: Path, logs: Path) -> Iterator[tuple[Group, Beats]]:
    """A worker that reaches Kafka through a proxy, and its heartbeats."""
    beats = Beats()
    proxies: list[TcpProxy] = []
    with ExitStack() as stack:

        def advertise(listener: str, port: int) -> int:
            if listener != PROXIED:
                return port
            proxies.append(stack.enter_context(TcpProxy(port)))
            proxies[-1].sent = beats.saw
            return proxies[-1].port

        cluster = KafkaCluster(
            name="patterns",
            listeners={PROXIED: "PLAINTEXT"},
            advertise=advertise,
            kafka=kafka,
            logs=logs,
        )
        stack.enter_context(cluster)
        quick = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "200"}
        properties = worker_properties(proxies[-1].address, unique("patterns"), quick)
        yield stack.enter_context(worker_group(1, properties, tmp_path, logs)), beats


def test_concurrent_validations_of_the_worst_patterns_delay_no_heartbeat(
    worker: tuple[Group, Beats],
) -> None:
    group, beats = worker
    beats.worker = psutil.Process(group.first.process.pid)
    wait_until(lambda: len(beats.at) > 5, 60, "heartbeats")
    url = group.first.url

    def validate(pattern: str) -> int:
        config = {"connector.class": "FileStreamSink", "name": "c", "topics.regex": pattern}
        path = "/connector-plugins/FileStreamSink/config/validate"
        return call(url, "PUT", path, config).status

    gaps = {}
    with ThreadPoolExecutor(4) as pool:
        for what, pattern in WORST.items():
            begin = beats.now()
            assert list(pool.map(validate, [pattern] * 4)) == [200] * 4, what
            gaps[what] = beats.longest_gap(begin, beats.now())
            print(f"{what}: {gaps[what]:.3f} s")
    assert {what: gap for what, gap in gaps.items() if gap >= LIMIT_S} == {}
