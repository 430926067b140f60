"""Exactly-once turned on for a flow that has copied without it, and off again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.flows.worker_flow import worker_flow
from tests.support.records.losing import (
    assert_copied_ranges,
    delete_records,
    history_losses,
    renew,
)
from tests.support.records.offset_records import offset_map
from tests.support.records.producing import Record, numbered, produce, produce_transactions
from tests.support.records.reading import numbers, read_partition
from tests.support.waiting import wait_until

PARTITIONS, COUNT = 2, 100
COMMITTED = {"A.consumer.isolation.level": "read_committed", "tasks.max": "1"}
ONCE = {**COMMITTED, "B.exactly.once.source.support": "enabled"}
PREPARING = {**COMMITTED, "B.exactly.once.source.support": "preparing"}
SPARK = {
    "A->B.mirror.engine": "spark",
    "A->B.spark.master": "local[2]",
    "A->B.mirror.spark.batch.ms": "1000",
    "B.task.shutdown.graceful.timeout.ms": "20000",
}
# On a busy machine a session of Spark alone takes minutes.
SPARK_START_S, START_S = 300.0, 60.0
WORKER: dict[str, str] = {}


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(WORKER, id="worker"),
        pytest.param(SPARK, id="spark", marks=pytest.mark.timeout(1800)),
    ],
)
def test_each_record_is_copied_once_and_what_was_lost_between_is_told(
    flow: MirroredFlow, logs: Path, tmp_path: Path, engine: Mapping[str, str]
) -> None:
    """Without, preparing, with, and without: after each clean stop the next goes on where it was,
    and knows both logs as they were."""
    log = logs / "mirror.log"
    start_s = SPARK_START_S if engine else START_S
    source = flow.source_servers
    plain, transactional = flow.topic("plain", partitions=PARTITIONS), flow.topic("transactional")
    renewed = {mode: flow.topic(f"renewed-{n}") for n, mode in enumerate(("with", "without"))}
    trimmed = flow.topic("trimmed")
    url = f"sqlite:///{tmp_path / 'history.db'}"
    history = {"mirror.history.url": url, "mirror.loss.policy.retention": "fail"}
    written = 0

    def write() -> None:
        nonlocal written
        for partition in range(PARTITIONS):
            produce(source, plain, numbered(COUNT, start=written, partition=partition))
        halves = [numbered(COUNT // 2, start=written + n) for n in (0, COUNT // 2)]
        aborted = numbered(5, start=7_000_000)
        produce_transactions(
            source, transactional, [(halves[0], True), (aborted, False), (halves[1], True)]
        )
        written += COUNT

    def turn(mode: Mapping[str, str], *more: str, told: str = "") -> None:
        """A life of the mirror. `more`: topics that were renewed before it. `told`: its words."""
        write()
        with running(flow.properties({**engine, **history, **mode}), tmp_path, log) as mirror:
            for topic, count in ((plain, PARTITIONS), (transactional, 1)):
                for partition in range(count):
                    wait_committed(flow, topic, partition, written, start_s)
            for topic in more:
                wait_committed(flow, topic, 0, COUNT + 150, start_s)
            wait_until(lambda: told in log.read_text(), start_s, told)
            stop_cleanly(mirror, log)

    for topic in (trimmed, *renewed.values()):
        produce(source, topic, numbered(COUNT))
    turn(COMMITTED)
    turn(PREPARING)
    renew(source, renewed["with"])
    produce(source, trimmed, numbered(50, start=COUNT))
    delete_records(source, trimmed, COUNT + 20)
    lost = f"{trimmed}-0: the source no longer has offsets {COUNT} to {COUNT + 19}"
    turn(ONCE, renewed["with"], told=lost)
    renew(source, renewed["without"])
    turn(COMMITTED, renewed["without"])

    for topic, count in ((plain, PARTITIONS), (transactional, 1)):
        for partition in range(count):
            assert committed(flow, topic, partition) == list(range(written))
            whole_and_true(flow, topic, partition)
    assert len(read_partition(flow.target_servers, flow.remote(plain))) == written, "nothing twice"
    for topic in renewed.values():
        assert committed(flow, topic, 0) == [*range(COUNT), *range(1_000, 1_150)]
    assert history_losses(url) == {
        *((topic, "source.recreated", "report", 0, COUNT - 1, 0) for topic in renewed.values()),
        (trimmed, "retention", "fail", COUNT, COUNT + 19, None),
    }
    assert committed(flow, trimmed, 0) == list(range(COUNT))
    stored = flow.stored_offsets()
    assert stored[trimmed, 0] == COUNT - 1
    assert [stored[plain, n] for n in range(PARTITIONS)] == [written - 1] * PARTITIONS
    assert_copied_ranges(url, transactional, 0, stored[transactional, 0] + 1, written)


def test_what_a_run_that_was_killed_had_not_committed_is_copied_without_exactly_once(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """It had written its offsets, and died before the commit."""
    log = logs / "mirror.log"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(COUNT))
    with running(flow.properties(ONCE), tmp_path, log) as mirror:
        flow.wait_records(topic, [COUNT])
        stop_cleanly(mirror, log)
    produce(flow.source_servers, topic, numbered(COUNT, start=COUNT))
    (key,) = {
        record.key for _, record in flow.stored_records() if topic.encode() in (record.key or b"")
    }
    uncommitted = Record(b'{"offset":%d}' % (2 * COUNT - 1), key)
    produce_transactions(flow.target_servers, flow.offsets_topic, [([uncommitted], False)])
    with running(flow.properties(COMMITTED), tmp_path, log) as mirror:
        flow.wait_records(topic, [2 * COUNT])
        stop_cleanly(mirror, log)
    assert committed(flow, topic, 0) == list(range(2 * COUNT))


@pytest.mark.slow
def test_a_run_killed_in_a_transaction_is_followed_by_one_without(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    log = logs / "mirror.log"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(COUNT))
    open_long = {
        "A->B.transaction.boundary": "interval",
        # The kill comes while the second transaction is open, also on a busy machine.
        "A->B.transaction.boundary.interval.ms": "10000",
        "B.producer.transaction.timeout.ms": "20000",
    }
    with running(flow.properties({**ONCE, **open_long}), tmp_path, log) as mirror:
        wait_committed(flow, topic, 0, COUNT)
        produce(flow.source_servers, topic, numbered(COUNT, start=COUNT))
        remote = flow.remote(topic)
        wait_until(
            lambda: len(read_partition(flow.target_servers, remote)) >= 2 * COUNT,
            START_S,
            "the second transaction",
        )
        mirror.kill()
    assert committed(flow, topic, 0) == list(range(COUNT))
    with running(flow.properties(COMMITTED), tmp_path, log) as mirror:
        wait_committed(flow, topic, 0, 2 * COUNT)
        stop_cleanly(mirror, log)
    assert committed(flow, topic, 0) == list(range(2 * COUNT))


@contextmanager
def writing(servers: str, topic: str) -> Iterator[list[int]]:
    """More and more records of both partitions meanwhile; how many each has, in the end."""
    stop, count = threading.Event(), [0]

    def write() -> None:
        while not stop.wait(0.05):
            for partition in range(PARTITIONS):
                produce(servers, topic, numbered(20, start=count[0], partition=partition))
            count[0] += 20

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(write)
        try:
            yield count
        finally:
            stop.set()
            done.result(START_S)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_group_is_turned_over_worker_by_worker_while_it_copies(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """By way of preparing, there and back, with workers of both kinds at a time."""
    topic = flow.topic(partitions=PARTITIONS)
    with worker_flow(flow, logs, tmp_path, "disabled", {}) as found:
        group, path = found.group, f"/connectors/{found.name}/config"

        def turn_over(support: str) -> None:
            for worker in group.workers:
                worker.stop()
                worker.configure({"exactly.once.source.support": support})
                worker.start().await_ready()
                group.until_running(found.name, tasks=PARTITIONS)
                grows(flow, topic)

        with writing(flow.source_servers, topic) as written:
            group.until_running(found.name, tasks=PARTITIONS)
            turn_over("preparing")
            turn_over("enabled")
            group.accepted("PATCH", path, {"exactly.once.support": "required"})
            group.until_running(found.name, tasks=PARTITIONS)
            grows(flow, topic)
            group.accepted("PATCH", path, {"exactly.once.support": None})
            turn_over("preparing")
            turn_over("disabled")
        for partition in range(PARTITIONS):
            wait_committed(flow, topic, partition, written[0])
    for partition in range(PARTITIONS):
        assert committed(flow, topic, partition) == list(range(written[0]))
        everything = read_partition(flow.target_servers, flow.remote(topic), partition)
        assert len(everything) == written[0], "nothing was aborted, as nobody was killed"
        whole_and_true(flow, topic, partition)


def grows(flow: MirroredFlow, topic: str) -> None:
    """Until both partitions have more committed records."""
    for partition in range(PARTITIONS):
        wait_committed(flow, topic, partition, len(committed(flow, topic, partition)) + 1)


def committed(flow: MirroredFlow, topic: str, partition: int) -> list[int]:
    """The numbers of the copied records that readers of committed records see."""
    remote = flow.wait_created(topic, SPARK_START_S)
    return numbers(
        read_partition(flow.target_servers, remote, partition, isolation="read_committed")
    )


def wait_committed(
    flow: MirroredFlow, topic: str, partition: int, count: int, timeout_s: float = START_S
) -> None:
    wait_until(
        lambda: len(committed(flow, topic, partition)) >= count,
        timeout_s,
        f"{count} committed records of {topic}-{partition}",
    )


def whole_and_true(flow: MirroredFlow, topic: str, partition: int) -> None:
    """The offset map says of each record where it is."""
    before = read_partition(flow.source_servers, topic, partition, isolation="read_committed")
    after = read_partition(
        flow.target_servers, flow.remote(topic), partition, isolation="read_committed"
    )
    there = {b.offset: a.offset for b, a in zip(before, after, strict=True)}
    translate = offset_map(flow.source_servers, flow.map_topic, topic, partition)
    assert {offset: translate.downstream(offset) for offset in there} == there
