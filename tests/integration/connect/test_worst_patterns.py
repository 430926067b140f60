"""Whoever may validate or write a config cannot keep a worker from its heartbeats, by patterns that
take long to compile or to match."""

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
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, file_source, worker_group
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
SLOWEST = {
    "equal alternatives": "(a|a)*b",
    "without regard to case": "(?i)(A|aa)+B",
    "nothing as an alternative": "(|a|aa)+b",
    "counts inside counts": "((a?){20}){200}b",
    "references to groups": r"(.*)(.*)(.*)\1\2\3+b",
    "looking ahead each time": "(?:(?=.*b.*)(a|aa))+b",
    "looking behind each time": "(?:(?<=^|a)(a|aa|b))+b",
    "many classes": f"({'|'.join(['[a-z]'] * 3_000)})+b",
    "much that may be absent": "a*" * 16_000 + "b",
}
"""Patterns of which each needs ages for a name of as many letters as Kafka allows. That the name
contains a b keeps the matcher from seeing at once that it does not match. Without commas, which
separate the elements of lists."""
SLOW_NAME, SLOW_NEW_NAME = "a" * 247 + "b_", "a" * 246 + "bb_"
WAIT_S = 120.0


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
        text = {
            f"{side}.converter": "org.apache.kafka.connect.storage.StringConverter"
            for side in ("key", "value")
        }
        properties = worker_properties(proxies[-1].address, unique("patterns"), quick | text)
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


def uses(pattern: str, topic: str, servers: str, folder: Path) -> dict[str, dict[str, str]]:
    """Connectors by name, each of which matches the topic's name in another way."""
    source = file_source(topic, folder / "line.txt")
    drop = {"transforms": "drop", "transforms.drop.type": "Filter"}
    route = {"transforms": "route", "transforms.route.type": "RegexRouter"}
    filtered = {"predicates": "named", "predicates.named.type": "TopicNameMatches"}
    sink = {"connector.class": "FileStreamSink", "file": str(folder / "taken.txt")}
    mirror = {
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
    }
    return {
        "sink": {**sink, "topics.regex": pattern},
        "router": {
            **source,
            **route,
            "transforms.route.regex": pattern,
            "transforms.route.replacement": "other",
        },
        "predicate": {
            **source,
            **drop,
            **filtered,
            "transforms.drop.predicate": "named",
            "predicates.named.pattern": pattern,
        },
        "creation": {
            **file_source(SLOW_NEW_NAME, folder / "line.txt"),
            "topic.creation.groups": "own",
            "topic.creation.own.include": pattern,
            "topic.creation.own.partitions": "1",
            "topic.creation.own.replication.factor": "1",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        },
        "mirror": {**mirror, "topics": pattern},
    }


def traces(group: Group, name: str) -> str:
    """Why the connector and its tasks have failed."""
    status = group.status(name) or {"connector": {}, "tasks": []}
    return "".join(part.get("trace") or "" for part in (status["connector"], *status["tasks"]))


def test_matching_the_slowest_patterns_delays_no_heartbeat(
    worker: tuple[Group, Beats], tmp_path: Path
) -> None:
    """Connectors with such a pattern end, and say which it is."""
    group, beats = worker
    beats.worker = psutil.Process(group.first.process.pid)
    servers = group.properties["bootstrap.servers"]
    topic = create_topic(servers, name=SLOW_NAME)
    produce(servers, topic, numbered(1))
    (tmp_path / "line.txt").write_text("a line\n")
    wait_until(lambda: len(beats.at) > 5, 60, "heartbeats")

    gaps = {}
    for what, pattern in SLOWEST.items():
        begin, named = beats.now(), f"The regular expression {pattern[:100]}"
        connectors = uses(pattern, topic, servers, tmp_path)
        for name, config in connectors.items():
            group.create(name, config)
        for name in connectors:
            wait_until(lambda: named in traces(group, name), WAIT_S, f"{what}: {name} ends")  # noqa: B023
        gaps[what] = beats.longest_gap(begin, beats.now())
        print(f"{what}: {gaps[what]:.3f} s")
        for name in connectors:
            group.accepted("DELETE", f"/connectors/{name}")
    assert {what: gap for what, gap in gaps.items() if gap >= LIMIT_S} == {}
