"""Prints what a group of workers takes for very many partitions: time until all are copied, memory
and idle CPU of each worker; and how soon topics that are created at once arrive.

Run: python -m tests.benchmarks.wide [--partitions N] [--workers N] [--new-topics N] [--brokers N]

Every partition of a broker takes a file and memory maps: as root, `sysctl -w
vm.max_map_count=2000000`; and `--brokers` for as many brokers on each side as the limit of open
files asks for.
"""

from __future__ import annotations

import argparse
import re
import resource
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from connect.clock import SYSTEM_CLOCK
from deploy.brokers import GuardedProcess, JvmOptions, KafkaCluster, kafka_runtime
from tests.benchmarks.machine import describe_machine
from tests.benchmarks.systems import flow_properties
from tests.benchmarks.watching import ProcessUse
from tests.support.flows.mirrors import mirror_maker
from tests.support.records.producing import Record, produce
from tests.support.records.topics import admin, create_topic, unique
from tests.support.waiting import wait_until

LOGS = Path("build/bench-wide")
_TOPIC_PARTITIONS = 1_000
_FILES = 1.1
"""That a broker opens for each partition."""
_READY_S = 1_800.0
_SETTLE_S = 60.0
_MEASURED_S = 60.0
_CALL_S = 60.0
_FILL_S = 300.0
"""A broker with other work to do takes minutes until it leads 1,000 new partitions."""
_MIB = 1024
_BROKER = JvmOptions(heap="1g", quick=False)
_BROKER_PROPERTIES = {
    "log.index.size.max.bytes": "65536",
    "log.segment.delete.delay.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "600000",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.wide")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--new-topics", type=int, default=1_000)
    parser.add_argument("--brokers", type=int, default=6)
    arguments = parser.parse_args()
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if arguments.partitions * _FILES > files * arguments.brokers:
        parser.error(f"a broker may open {files} files: raise `ulimit -n`, or use more --brokers")
    for name, value in describe_machine().items():
        print(f"- {name}: {value}")
    LOGS.mkdir(parents=True, exist_ok=True)
    kafka = kafka_runtime()

    def cluster(name: str, brokers: int) -> KafkaCluster:
        return KafkaCluster(
            brokers,
            controllers=1,
            name=name,
            kafka=kafka,
            jvm=_BROKER,
            properties=_BROKER_PROPERTIES,
            logs=LOGS,
        )

    if arguments.new_topics:
        with cluster("small-source", 1) as source, cluster("small-target", 1) as target:
            _new_topics(source.bootstrap_servers, target.bootstrap_servers, arguments.new_topics)
    if arguments.partitions:
        brokers = arguments.brokers
        with cluster("source", brokers) as source, cluster("target", brokers) as target:
            servers = (source.bootstrap_servers, target.bootstrap_servers)
            _wide(*servers, arguments.partitions, arguments.workers)


def _new_topics(source: str, target: str, count: int) -> None:
    """Topics of one partition and one record, created at once while a worker runs."""
    prefix = unique("new")
    first = create_topic(source, name=f"{prefix}-first")
    produce(source, first, [Record(b"first")])
    extra = {"refresh.topics.interval.seconds": "5"}
    with _workers("at-once", source, target, prefix, 1, extra) as (worker,):
        _wait_for_copies(target, [f"at-once.{first}"], 0, [worker])
        topics = [f"{prefix}-{number:04}" for number in range(count)]
        began = SYSTEM_CLOCK.monotonic()
        made = admin(source).create_topics(
            [NewTopic(topic, 1, 1) for topic in topics], request_timeout=_CALL_S
        )
        for done in made.values():
            done.result()
        created = SYSTEM_CLOCK.monotonic()
        _produce_to_all(source, topics, 0)
        sent = SYSTEM_CLOCK.monotonic()
        _wait_for_copies(target, [f"at-once.{topic}" for topic in topics], 0, [worker])
        ended = SYSTEM_CLOCK.monotonic()
    print(
        f"{count:,} topics created in {created - began:.1f} s and filled in {sent - created:.1f} "
        f"s: all are copied {ended - created:.1f} s after the last was created, "
        f"{max(0.0, ended - sent):.1f} s after the last record "
        "(refresh.topics.interval.seconds=5)",
        flush=True,
    )


def _wide(source: str, target: str, partitions: int, workers: int) -> None:
    """An idle flow of many partitions, from launch on."""
    prefix = unique("wide")
    topics = [f"{prefix}-{number:03}" for number in range(partitions // _TOPIC_PARTITIONS)]
    began = SYSTEM_CLOCK.monotonic()
    for topic in topics:
        create_topic(source, name=topic, partitions=_TOPIC_PARTITIONS)
    _produce_to_all(source, topics, _TOPIC_PARTITIONS - 1)
    print(
        f"{partitions:,} partitions on the source after {SYSTEM_CLOCK.monotonic() - began:.0f} s",
        flush=True,
    )
    launched = SYSTEM_CLOCK.monotonic()
    with _workers("wide", source, target, prefix, workers, {}) as processes:
        copies = [f"wide.{topic}" for topic in topics]
        _wait_for_copies(target, copies, _TOPIC_PARTITIONS - 1, processes)
        print(
            f"all topics copied {SYSTEM_CLOCK.monotonic() - launched:.0f} s after the launch of "
            f"{workers} workers",
            flush=True,
        )
        _measure_idle(processes)


def _produce_to_all(servers: str, topics: Sequence[str], partition: int) -> None:
    """A record to this partition of each topic."""
    producer = Producer({"bootstrap.servers": servers})
    for topic in topics:
        producer.produce(topic, b"a record", partition=partition)
    if left := producer.flush(_FILL_S):
        raise RuntimeError(f"{left} records were not delivered")


def _measure_idle(processes: Sequence[GuardedProcess]) -> None:
    waiting = threading.Event()
    waiting.wait(_SETTLE_S)
    uses = [ProcessUse(process.pid) for process in processes]
    before, started = [use.now() for use in uses], SYSTEM_CLOCK.monotonic()
    waiting.wait(_MEASURED_S)
    seconds = SYSTEM_CLOCK.monotonic() - started
    print("| worker | resident MB, idle | at most | of a core, idle |\n| --- | --- | --- | --- |")
    for number, (process, use, was) in enumerate(zip(processes, uses, before, strict=True), 1):
        now = use.now()
        share = (now.cpu_s - was.cpu_s) / seconds * 100
        print(f"| {number} | {now.rss_mib:.0f} | {_most_mib(process.pid):.0f} | {share:.1f} % |")


def _most_mib(pid: int) -> float:
    """The most resident memory that a process ever had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / _MIB


@contextmanager
def _workers(
    alias: str, source: str, target: str, prefix: str, count: int, extra: Mapping[str, str]
) -> Iterator[list[GuardedProcess]]:
    properties = flow_properties(
        alias,
        source,
        target,
        f"{prefix}-.*",
        {
            "tasks.max": str(count),
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": "http://127.0.0.1:0",
            "metrics.listener": "http://127.0.0.1:0",
            **extra,
        },
        plain=True,
    )
    with ExitStack() as stack:
        started: list[GuardedProcess] = []
        for number in range(1, count + 1):
            name = f"{alias}-{number}"
            process = mirror_maker(properties, LOGS / name, LOGS / f"{name}.log")
            stack.callback(process.close)
            started.append(process)
        yield started


def _wait_for_copies(
    target: str, topics: Collection[str], partition: int, processes: Sequence[GuardedProcess]
) -> None:
    """Waits until this partition of all topics has a record."""
    client = admin(target)
    missing = set(topics)

    def copied() -> bool:
        for process in processes:
            if process.poll() is not None:
                raise RuntimeError(f"A worker has ended; see {process.log}")
        missing.difference_update(_with_records(client, missing, partition))
        return not missing

    wait_until(copied, _READY_S, "records in all copies")


def _with_records(client: AdminClient, topics: AbstractSet[str], partition: int) -> set[str]:
    existing = topics & client.list_topics(timeout=_CALL_S).topics.keys()
    if not existing:
        return set()
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(topic, partition): latest for topic in existing}
    found: set[str] = set()
    for key, answer in client.list_offsets(asked, request_timeout=_CALL_S).items():
        try:
            if answer.result().offset > 0:
                found.add(key.topic)
        except KafkaException:
            continue  # The leader is not known yet.
    return found


if __name__ == "__main__":
    main()
