"""`kafka-mirror-maker` with a target that is down or refuses, and killed in the middle of the
stream: all records are there, each key's in order, and the group has what was copied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrormaker1 import COPY_S, Clusters, Run
from tests.support.records.groups import committed
from tests.support.records.producing import Record, meanwhile, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import admin, create_topic, end_offsets
from tests.support.waiting import wait_until

STOP_S, BACK_S = 30.0, 90.0
_WAITS = re.compile("trying again|-[0-9]+ waits: ")
PARTITIONS, KEYS, ROUND = 2, 10, 50

BOTH_WAYS = pytest.mark.parametrize("copies", [2, 3], ids=["as bytes", "by key"])
IN_FLIGHT = pytest.mark.parametrize(
    "producer",
    [
        pytest.param({}, marks=pytest.mark.slow, id="five in flight"),
        pytest.param({"max.in.flight.requests.per.connection": "1"}, id="one in flight"),
    ],
)


class Stream:
    """Records `v<n>` in a topic of the source, which come without an end while it is `flowing`.
    Each key has its source partition."""

    def __init__(self, clusters: Clusters, copies: int) -> None:
        self.clusters, self.copies = clusters, copies
        self.topic = clusters.topic(partitions=PARTITIONS, copies=copies)
        self.written = 0

    def write(self) -> None:
        start = self.written
        records = [
            Record(b"v%d" % n, b"key-%d" % (n % KEYS), n % KEYS % PARTITIONS)
            for n in range(start, start + ROUND)
        ]
        produce(self.clusters.source, self.topic, records)
        self.written = start + ROUND

    @contextmanager
    def flowing(self) -> Iterator[None]:
        with meanwhile(self.write, pause_s=0.02):
            yield

    def wait_written(self, more: int) -> None:
        goal = self.written + more
        wait_until(lambda: self.written >= goal, COPY_S, f"{more} more records at the source")

    def wait_copied(self, more: int, seconds: float = COPY_S) -> None:
        """Until so many more records are at the target than now."""
        self.clusters.wait_copied(self.topic, self._copied() + more, seconds)

    def _copied(self) -> int:
        return sum(end_offsets(self.clusters.target, self.topic).values())

    def is_led(self) -> bool:
        """Whether the target answers; one that stood still was fenced for a moment."""
        try:
            self._copied()
        except KafkaException:
            return False
        return True

    def wait_committed(self, seconds: float = COPY_S) -> None:
        """Until the group stands at the end of the source."""
        ends = end_offsets(self.clusters.source, self.topic)
        assert sum(ends.values()) == self.written
        self.clusters.wait_committed(self.topic, ends, seconds)

    def doubles(self) -> int:
        """How many records the target has more than once. Fails if one is missing, or if a record
        comes before an earlier one of its key, or of its partition where partitions are kept."""
        per_key: dict[bytes, list[int]] = {}
        for partition in range(self.copies):
            found = read_partition(self.clusters.target, self.topic, partition)
            for record in found:
                assert record.key is not None
                per_key.setdefault(record.key, []).extend(numbers([record]))
            if self.copies == PARTITIONS:
                firsts = list(dict.fromkeys(numbers(found)))
                assert firsts == list(range(partition, self.written, PARTITIONS))
        for number in range(KEYS):
            firsts = list(dict.fromkeys(per_key[b"key-%d" % number]))
            assert firsts == list(range(number, self.written, KEYS))
        return sum(map(len, per_key.values())) - self.written


@BOTH_WAYS
@IN_FLIGHT
def test_killed_in_the_middle_of_the_stream_it_goes_on_where_the_group_is(
    clusters: Clusters, run: Run, copies: int, producer: dict[str, str]
) -> None:
    stream = Stream(clusters, copies)
    options = clusters.options("--include", stream.topic, producer=producer)
    first = run(options)
    with stream.flowing():
        wait_until(lambda: committed(clusters.source, clusters.group), COPY_S, "a commit")
        stream.wait_copied(4 * ROUND)
        first.kill()
        left = committed(clusters.source, clusters.group)
        copied = sum(end_offsets(clusters.target, stream.topic).values())
        second = run(options)
        stream.wait_copied(4 * ROUND)
    stream.wait_committed()
    assert second.stop(STOP_S) == 0
    # No more than what was copied after the last commit is copied again.
    assert stream.doubles() <= copied - sum(left.values())


@pytest.fixture(scope="module")
def fragile(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    """A target that tests kill, and that creates no topic by itself."""
    properties = {"auto.create.topics.enable": "false"}
    cluster = KafkaCluster(
        name="mm1-fragile", properties=properties, kafka=kafka, logs=session_logs
    )
    with cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.timeout(400)
@BOTH_WAYS
@pytest.mark.parametrize("in_flight", ["1", "5"])
def test_killed_with_requests_that_are_not_answered_it_loses_nothing_and_keeps_the_order(
    source_cluster: KafkaCluster,
    fragile: KafkaCluster,
    tmp_path: Path,
    run: Run,
    copies: int,
    in_flight: str,
) -> None:
    """The target stands still until the mirror, which waits for it with all requests that it may
    have in flight, is killed. Then it appends what of these it had received."""
    clusters = Clusters(source_cluster, fragile, tmp_path)
    stream = Stream(clusters, copies)
    producer = {"max.in.flight.requests.per.connection": in_flight}
    options = clusters.options("--include", stream.topic, producer=producer)
    first = run(options)
    with stream.flowing():
        stream.wait_copied(4 * ROUND)
        fragile.node(1).pause()
        try:
            # A batch of each partition at a time: more requests are due than may be in flight.
            stream.wait_written(8 * ROUND)
            first.kill()
        finally:
            fragile.node(1).resume()
        wait_until(stream.is_led, BACK_S, "the target")
        second = run(options)
        stream.wait_copied(4 * ROUND, BACK_S)
    stream.wait_committed(BACK_S)
    assert second.stop(STOP_S) == 0
    # Fails for a lost record, and for one out of order.
    stream.doubles()


@pytest.mark.slow
@pytest.mark.timeout(400)
@BOTH_WAYS
@pytest.mark.parametrize("in_flight", ["1", "5"])
def test_a_target_that_is_down_is_waited_for(
    source_cluster: KafkaCluster,
    fragile: KafkaCluster,
    tmp_path: Path,
    run: Run,
    copies: int,
    in_flight: str,
) -> None:
    clusters = Clusters(source_cluster, fragile, tmp_path)
    stream = Stream(clusters, copies)
    producer = {"max.in.flight.requests.per.connection": in_flight}
    mirror = run(clusters.options("--include", stream.topic, producer=producer))
    with stream.flowing():
        for _ in range(2):
            stream.wait_copied(4 * ROUND, BACK_S)
            fragile.node(1).kill()
            stream.wait_written(20 * ROUND)
            fragile.restart()
        stream.wait_copied(4 * ROUND, BACK_S)
    stream.wait_committed(BACK_S)
    assert mirror.stop(STOP_S) == 0
    # The process lived, so its producers went on with their sequences.
    assert stream.doubles() == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
@BOTH_WAYS
def test_a_target_topic_that_is_deleted_is_waited_for(
    source_cluster: KafkaCluster,
    fragile: KafkaCluster,
    tmp_path: Path,
    logs: Path,
    run: Run,
    copies: int,
) -> None:
    clusters, log = Clusters(source_cluster, fragile, tmp_path), logs / "mm1-1.log"
    stream, other = Stream(clusters, copies), Stream(clusters, copies)
    mirror = run(clusters.options("--include", f"{stream.topic}|{other.topic}"))
    stream.write()
    stream.wait_committed()
    admin(clusters.target).delete_topics([stream.topic])[stream.topic].result(COPY_S)
    stream.write()

    def refused() -> bool:
        assert mirror.running(), log.read_text()
        lines = [line for line in log.read_text().splitlines() if stream.topic in line]
        return any(f"{stream.topic}-" in each and _WAITS.search(each) for each in lines)

    wait_until(refused, BACK_S, "the refusal")
    other.write()
    other.wait_committed()
    create_topic(clusters.target, name=stream.topic, partitions=copies)
    stream.wait_committed(BACK_S)
    assert mirror.stop(STOP_S) == 0
    assert other.doubles() == 0
    left = [
        number
        for partition in range(copies)
        for number in numbers(read_partition(clusters.target, stream.topic, partition))
    ]
    assert sorted(left) == list(range(ROUND, 2 * ROUND))
