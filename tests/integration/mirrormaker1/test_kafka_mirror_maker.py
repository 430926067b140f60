"""`kafka-mirror-maker` on real clusters: the group, its offsets, keys, handlers, refusals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka.partitioner.default import murmur2

from connect.config.types import SecretStr
from connectors.mirror.history.database import read_events
from connectors.mirrormaker1.offset_checker import group_rows
from deploy.brokers import KafkaCluster, KafkaRuntime, kafka_runtime
from tests.support.docs.pages import DOCS, blocks
from tests.support.flows.mirrormaker1 import (
    COPY_S,
    LAST_WITH_MM1,
    Clusters,
    Run,
    java_mm1,
    offset_rows,
)
from tests.support.records.groups import committed
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import contents, numbers, read_partition
from tests.support.records.topics import alter_topic, create_topic, end_offsets, unique
from tests.support.waiting import wait_until

STOP_S, JAVA_S = 30.0, 60.0
SKIPPED_RECORD = 7


def test_batches_keep_their_partition_and_the_group_shows_what_is_copied(
    clusters: Clusters, run: Run
) -> None:
    topic = clusters.topic(partitions=3, copies=3)
    for partition in range(3):
        produce(clusters.source, topic, numbered(100, partition=partition), compression="zstd")
    mirror = run(clusters.options("--include", topic))
    clusters.wait_committed(topic, {0: 100, 1: 100, 2: 100})
    for partition in range(3):
        source, target = (
            read_partition(servers, topic, partition)
            for servers in (clusters.source, clusters.target)
        )
        assert contents(target) == contents(source)
    assert mirror.stop(STOP_S) == 0


def test_a_stop_commits_what_the_interval_had_not(clusters: Clusters, run: Run) -> None:
    topic = clusters.topic(copies=1)
    produce(clusters.source, topic, numbered(50))
    mirror = run(clusters.options("--include", topic), commit_ms=3_600_000)
    clusters.wait_copied(topic, 50)
    assert committed(clusters.source, clusters.group) == {}
    assert mirror.stop(STOP_S) == 0
    assert committed(clusters.source, clusters.group) == {(topic, 0): 50}


ASSIGNORS = "org.apache.kafka.clients.consumer"
PROTOCOLS = {
    "range": {"partition.assignment.strategy": f"{ASSIGNORS}.RangeAssignor"},
    "roundrobin": {"partition.assignment.strategy": f"{ASSIGNORS}.RoundRobinAssignor"},
    "cooperative": {"partition.assignment.strategy": f"{ASSIGNORS}.CooperativeStickyAssignor"},
    "of the broker": {"group.protocol": "consumer"},
}


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param("range"),
        pytest.param("roundrobin", marks=pytest.mark.slow),
        pytest.param("cooperative"),
        pytest.param("of the broker", marks=pytest.mark.slow),
    ],
)
def test_two_processes_share_the_partitions_and_hand_them_over(
    clusters: Clusters, run: Run, protocol: str
) -> None:
    topic = clusters.topic(partitions=4, copies=4)
    options = clusters.options("--include", topic, consumer=PROTOCOLS[protocol])
    first = run(options, commit_ms=3_600_000)
    for partition in range(4):
        produce(clusters.source, topic, numbered(100, partition=partition))
    clusters.wait_copied(topic, 400)
    # The rebalance commits what is given up; otherwise the second process would copy these records
    # again. Step by step only two partitions are given up.
    given_up = 4 if protocol in ("range", "roundrobin") else 2
    second = run(options, commit_ms=3_600_000)

    def handed_over() -> bool:
        found = committed(clusters.source, clusters.group)
        assert set(found.values()) <= {100}
        assert len(found) <= given_up
        return len(found) == given_up

    wait_until(handed_over, COPY_S, "the commit of what is given up")
    for partition in range(4):
        produce(clusters.source, topic, numbered(100, start=100, partition=partition))
    clusters.wait_copied(topic, 800)
    assert first.stop(STOP_S) == 0
    for partition in range(4):
        produce(clusters.source, topic, numbered(100, start=200, partition=partition))
    clusters.wait_copied(topic, 1200)
    assert second.stop(STOP_S) == 0
    for partition in range(4):
        assert numbers(read_partition(clusters.target, topic, partition)) == list(range(300))
    clusters.wait_committed(topic, dict.fromkeys(range(4), 300))


def test_after_a_kill_only_uncommitted_records_are_copied_twice(
    clusters: Clusters, run: Run
) -> None:
    topic = clusters.topic(partitions=2, copies=2)
    options = clusters.options("--include", topic)
    first = run(options)
    produce(clusters.source, topic, numbered(100))
    clusters.wait_committed(topic, {0: 100})
    first.kill()
    second = run(options)
    produce(clusters.source, topic, numbered(100, start=100))
    clusters.wait_committed(topic, {0: 200})
    assert numbers(read_partition(clusters.target, topic, 0)) == list(range(200))
    assert second.stop(STOP_S) == 0


def test_the_key_decides_where_the_target_has_another_number_of_partitions(
    clusters: Clusters, run: Run
) -> None:
    topic = clusters.topic(partitions=2, copies=3)
    records = [
        Record(b"v%d" % n, b"" if n % 20 == 0 else b"key-%d" % (n % 20), n % 2, 1_600_000_000_000)
        for n in range(200)
    ]
    produce(clusters.source, topic, records)
    produce(clusters.source, topic, [Record(b"v-1", None, 0) for _ in range(30)])
    mirror = run(clusters.options("--include", topic))
    clusters.wait_committed(topic, {0: 130, 1: 100})
    assert mirror.stop(STOP_S) == 0
    per_key: dict[bytes, list[int]] = {}
    for partition in range(3):
        for record in read_partition(clusters.target, topic, partition):
            if record.key is not None:
                assert (murmur2(record.key) & 0x7FFFFFFF) % 3 == partition
                assert record.timestamp_ms == 1_600_000_000_000
                per_key.setdefault(record.key, []).extend(numbers([record]))
    assert sum(map(len, per_key.values())) == 200
    assert all(found == sorted(found) for found in per_key.values())


def test_a_target_topic_that_grows_moves_to_keys_without_a_gap(
    clusters: Clusters, run: Run
) -> None:
    topic = clusters.topic(partitions=1, copies=1)
    mirror = run(clusters.options("--include", topic))
    produce(clusters.source, topic, numbered(100))
    clusters.wait_copied(topic, 100)
    _grow(clusters.target, topic, 2)
    wait_until(lambda: len(end_offsets(clusters.target, topic)) == 2, COPY_S, "2 partitions")

    def spread() -> bool:
        produce(clusters.source, topic, numbered(20, start=next(start)))
        return end_offsets(clusters.target, topic)[1] > 0

    start = iter(range(100, 100_000, 20))
    wait_until(spread, COPY_S, "records in the new partition")
    end = end_offsets(clusters.source, topic)[0]
    clusters.wait_committed(topic, {0: end})
    assert mirror.stop(STOP_S) == 0
    copied = [
        number
        for partition in range(2)
        for number in numbers(read_partition(clusters.target, topic, partition))
    ]
    assert sorted(copied) == list(range(end))


def _grow(servers: str, topic: str, partitions: int) -> None:
    from confluent_kafka.admin import NewPartitions

    from tests.support.records.topics import admin

    admin(servers).create_partitions([NewPartitions(topic, partitions)])[topic].result(30)


BOTH_WAYS = pytest.mark.parametrize("copies", [1, 2], ids=["as bytes", "by key"])


@BOTH_WAYS
def test_a_refused_record_stops_the_mirror_after_the_records_before_it(
    clusters: Clusters, run: Run, copies: int
) -> None:
    topic = _with_a_refused_record(clusters, copies)
    mirror = run(clusters.options("--include", topic), commit_ms=3_600_000)
    assert mirror.wait(COPY_S) == 255
    assert committed(clusters.source, clusters.group) == {(topic, 0): SKIPPED_RECORD}
    copied = _copied_numbers(clusters, topic, copies)
    assert set(range(SKIPPED_RECORD)) <= copied
    assert SKIPPED_RECORD not in copied


@BOTH_WAYS
def test_without_abort_only_a_refused_record_is_skipped_and_counted(
    clusters: Clusters, run: Run, logs: Path, copies: int
) -> None:
    topic = _with_a_refused_record(clusters, copies)
    history = f"sqlite:///{clusters.directory / 'history.db'}"
    options = clusters.options(
        *("--include", topic, "--abort.on.send.failure", "false"),
        producer={"mirror.history.url": history},
    )
    mirror = run(options)
    clusters.wait_committed(topic, {0: 10})
    assert mirror.stop(STOP_S) == 0
    assert _copied_numbers(clusters, topic, copies) == set(range(10)) - {SKIPPED_RECORD}
    log = (logs / "mm1-1.log").read_text()
    assert f"skipped the record of {topic}-0 at offset {SKIPPED_RECORD} (1 skipped" in log
    (event,) = read_events(SecretStr(history), 10)
    assert (event["kind"], event["first"], event["last"]) == ("skipped", 7, 7)


def _copied_numbers(clusters: Clusters, topic: str, copies: int) -> set[int]:
    """Of all partitions; a record of one way may be there twice, but later ones never before it."""
    found = [numbers(read_partition(clusters.target, topic, number)) for number in range(copies)]
    for each in found:
        firsts = list(dict.fromkeys(each))
        assert firsts == sorted(firsts)
    return set().union(*found)


def _with_a_refused_record(clusters: Clusters, copies: int) -> str:
    topic = clusters.topic(copies=copies)
    alter_topic(clusters.target, topic, {"max.message.bytes": "1000"})
    produce(clusters.source, topic, numbered(SKIPPED_RECORD))
    produce(clusters.source, topic, numbered(1, start=SKIPPED_RECORD, size=5000))
    produce(clusters.source, topic, numbered(10 - SKIPPED_RECORD - 1, start=SKIPPED_RECORD + 1))
    return topic


HANDLER = '''
from collections.abc import Sequence

from connectors.mirrormaker1.plugins import (
    ConsumedRecord, MessageHandler, ProducedRecord, RebalanceListener,
)


class Odd(MessageHandler):
    """Keeps odd numbers, twice, in the topic named by its argument."""

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def handle(self, record: ConsumedRecord) -> Sequence[ProducedRecord]:
        if record.offset % 2 == 0:
            return ()
        return [ProducedRecord(self.topic, record.value, record.key, (("n", b"%d" % n),))
                for n in range(2)]


class Listener(RebalanceListener):
    def on_partitions_assigned(self, partitions):
        print("LISTENER assigned", sorted(partitions), flush=True)

    def on_partitions_revoked(self, partitions):
        print("LISTENER revoked", sorted(partitions), flush=True)
'''


def test_a_message_handler_writes_what_it_returns(
    clusters: Clusters, run: Run, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clusters.directory / "people_own.py").write_text(HANDLER)
    with _also_on_path(monkeypatch, clusters.directory):
        topic, kept = clusters.topic(copies=1), unique("kept")
        create_topic(clusters.target, name=kept)
        produce(clusters.source, topic, numbered(10))
        mirror = run(
            clusters.options(
                *("--include", topic),
                *("--message.handler", "people_own:Odd", "--message.handler.args", kept),
                *("--consumer.rebalance.listener", "people_own:Listener"),
            )
        )
        clusters.wait_committed(topic, {0: 10})
        assert mirror.stop(STOP_S) == 0
    found = read_partition(clusters.target, kept, 0)
    assert numbers(found) == [n for n in range(1, 10, 2) for _ in range(2)]
    assert [record.headers for record in found[:2]] == [(("n", b"0"),), (("n", b"1"),)]
    assert end_offsets(clusters.target, topic) == {0: 0}
    log = (logs / "mm1-1.log").read_text()
    assert f"LISTENER assigned [('{topic}', 0)]" in log
    assert f"LISTENER revoked [('{topic}', 0)]" in log


def test_a_message_handler_writes_to_topics_by_date(
    clusters: Clusters, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler of the page that says what to do instead of TimestampRouter."""
    (handler,) = (
        block.text
        for block in blocks(DOCS / "how-to" / "transform-records.md")
        if block.title == "by_day.py"
    )
    (clusters.directory / "by_day.py").write_text(handler)
    # The last two milliseconds of a day, and the first two of the next.
    midnight = 1_767_225_600_000
    times = [midnight - 2, midnight, midnight - 1, midnight + 1]
    topic = clusters.topic(copies=1)
    sent = [
        Record(b"v%d" % n, b"k", timestamp_ms=time, headers=(("n", b"%d" % n),))
        for n, time in enumerate(times)
    ]
    with _also_on_path(monkeypatch, clusters.directory):
        produce(clusters.source, topic, sent)
        mirror = run(clusters.options("--include", topic, "--message.handler", "by_day:ByDay"))
        clusters.wait_committed(topic, {0: 4})
        assert mirror.stop(STOP_S) == 0
    original = contents(read_partition(clusters.source, topic))
    for day, expected in (("20251231", original[::2]), ("20260101", original[1::2])):
        assert contents(read_partition(clusters.target, f"{topic}-{day}")) == expected
    assert end_offsets(clusters.target, topic) == {0: 0}


@contextmanager
def _also_on_path(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Iterator[None]:
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")])
    )
    yield


def test_each_stream_is_a_member_of_the_group(clusters: Clusters, run: Run) -> None:
    topic = clusters.topic(partitions=2, copies=2)
    mirror = run(clusters.options("--include", topic, "--num.streams", "2"))
    members = min(2, os.cpu_count() or 1)

    def owners() -> set[str]:
        rows = group_rows({"bootstrap.servers": clusters.source}, clusters.group, None)
        return {row.owner for row in rows if row.owner}

    wait_until(lambda: len(owners()) == members, COPY_S, f"{members} members")
    for partition in range(2):
        produce(clusters.source, topic, numbered(50, partition=partition))
    clusters.wait_committed(topic, {0: 50, 1: 50})
    assert mirror.stop(STOP_S) == 0
    for partition in range(2):
        assert numbers(read_partition(clusters.target, topic, partition)) == list(range(50))


def test_two_sources_meet_in_one_target(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path, run: Run
) -> None:
    """Here the second source is the target cluster under another topic's name."""
    there, back = (
        Clusters(source_cluster, target_cluster, tmp_path),
        Clusters(target_cluster, target_cluster, tmp_path),
    )
    topic = there.topic(copies=1)
    produce(there.source, topic, numbered(10))
    first, second = there.options(name="first"), back.options(name="second")
    mirror = run([*first[:2], *second[:2], *first[2:], "--include", topic], commit_ms=200)
    there.wait_committed(topic, {0: 10})
    # The second source copies the topic into itself, as a user who mixes up addresses would see.
    wait_until(
        lambda: committed(back.source, back.group).get((topic, 0), 0) > 10, COPY_S, "both sources"
    )
    assert mirror.stop(STOP_S) == 0


@pytest.fixture(scope="module")
def kafka_with_mm1() -> KafkaRuntime:
    return kafka_runtime(version=LAST_WITH_MM1)


def test_a_group_of_the_java_tool_goes_on_with_ours_and_back(
    clusters: Clusters, run: Run, kafka_with_mm1: KafkaRuntime, logs: Path
) -> None:
    topic = clusters.topic(partitions=2, copies=2)
    options = clusters.options("--include", topic)

    def more(start: int) -> None:
        for partition in range(2):
            produce(clusters.source, topic, numbered(50, start=start, partition=partition))

    more(0)
    with java_mm1(kafka_with_mm1, options, logs / "java-1.log") as java:
        clusters.wait_committed(topic, {0: 50, 1: 50}, JAVA_S)
        shown = offset_rows("--bootstrap-server", clusters.source, "--group", clusters.group)
        for number, row in enumerate(shown):
            assert row[:-1] == [clusters.group, topic, str(number), "50", "50", "0"]
            assert row[-1].startswith(f"{clusters.group}-0-"), "the member's id is Java's"
        java.stop(STOP_S)
    more(50)
    ours = run(options)
    clusters.wait_committed(topic, {0: 100, 1: 100})
    # A member of Java's beside ours: each has one partition.
    with java_mm1(kafka_with_mm1, options, logs / "java-2.log") as java:
        wait_until(lambda: _assigned_one(logs / "mm1-1.log", topic), JAVA_S, "a shared group")
        more(100)
        clusters.wait_committed(topic, {0: 150, 1: 150}, JAVA_S)
        assert ours.stop(STOP_S) == 0
        more(150)
        clusters.wait_committed(topic, {0: 200, 1: 200}, JAVA_S)
        java.stop(STOP_S)
    copied = {
        number: numbers(read_partition(clusters.target, topic, number)) for number in range(2)
    }
    # Java's producer partitions by key, so a record may be in either partition; each is there once.
    assert sorted(copied[0] + copied[1]) == sorted([*range(200), *range(200)])


def _assigned_one(log: Path, topic: str) -> bool:
    lines = [line for line in log.read_text().splitlines() if ": assigned" in line]
    return bool(lines) and lines[-1].count(topic) == 1
