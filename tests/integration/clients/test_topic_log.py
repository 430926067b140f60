"""The log in a compacted topic, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AclOperation

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.topic_log import LogRecord, TopicLog, TopicSpec
from connect.clock import Deadline
from connect.errors import ConfigError, ConnectError, DeadlineExceeded, RetriableError
from deploy.brokers import KafkaCluster
from tests.support.records.producing import Record, produce, produce_transactions
from tests.support.records.topics import create_topic, unique
from tests.support.security.denying import denied
from tests.support.waiting import wait_until

COMPACT = {"cleanup.policy": "compact"}
PARTITIONS = 5


@contextmanager
def opened(
    cluster: KafkaCluster,
    topic: str,
    on_record: Callable[[LogRecord], None],
    *,
    partitions: int = PARTITIONS,
    read_committed: bool = False,
) -> Iterator[TopicLog]:
    log = TopicLog(
        topic,
        {"bootstrap.servers": cluster.bootstrap_servers, "client.id": topic},
        on_record,
        create=TopicSpec(topic, partitions, 1, {"segment.bytes": "1048576"}),
        read_committed=read_committed,
    )
    try:
        log.start(Deadline(30))
        yield log
    finally:
        log.stop(Deadline(10))


def test_topic_is_created_compacted_with_the_partitions_and_configs_asked_for(
    target_cluster: KafkaCluster,
) -> None:
    topic = unique("log")
    with opened(target_cluster, topic, lambda _: None) as log:
        assert log.partitions == PARTITIONS
    admin = Admin({"bootstrap.servers": target_cluster.bootstrap_servers})
    try:
        entries = admin.describe_topic_configs([topic])[topic]
    finally:
        admin.close()
    configs = {entry.name: entry.value for entry in entries}
    assert configs["cleanup.policy"] == "compact"
    assert configs["segment.bytes"] == "1048576"


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_would_lose_records_is_refused(
    target_cluster: KafkaCluster, policy: str
) -> None:
    topic = create_topic(
        target_cluster.bootstrap_servers, "log", configs={"cleanup.policy": policy}
    )
    with (
        pytest.raises(ConfigError, match=f"cleanup.policy={policy}"),
        opened(target_cluster, topic, lambda _: None),
    ):
        pass


def test_a_topic_that_nobody_creates_is_waited_for_until_the_deadline(
    target_cluster: KafkaCluster,
) -> None:
    topic = unique("absent")
    log = TopicLog(topic, {"bootstrap.servers": target_cluster.bootstrap_servers}, lambda _: None)
    try:
        with pytest.raises(RetriableError, match=topic):
            log.start(Deadline(0.5))
    finally:
        log.stop(Deadline(5))


def test_everything_that_was_there_is_read_before_start_returns(
    target_cluster: KafkaCluster,
) -> None:
    topic = create_topic(
        target_cluster.bootstrap_servers, "log", partitions=PARTITIONS, configs=COMPACT
    )
    records = [Record(b"v%d" % n, b"k%d" % n, n % PARTITIONS) for n in range(5000)]
    produce(target_cluster.bootstrap_servers, topic, records)
    seen: list[LogRecord] = []
    with opened(target_cluster, topic, seen.append):
        assert sorted((r.partition, r.key, r.value) for r in seen) == sorted(
            (r.partition, r.key, r.value) for r in records
        )
    by_partition = [[r.offset for r in seen if r.partition == p] for p in range(PARTITIONS)]
    assert all(offsets == sorted(offsets) for offsets in by_partition)


@pytest.mark.parametrize(("same", "read"), [(True, [2]), (False, [0, 1, 2])])
def test_a_topic_that_was_created_again_is_read_from_its_beginning(
    target_cluster: KafkaCluster, same: bool, read: list[int]
) -> None:
    servers = {"bootstrap.servers": target_cluster.bootstrap_servers}
    topic = create_topic(target_cluster.bootstrap_servers, "log", configs=COMPACT)
    produce(target_cluster.bootstrap_servers, topic, [Record(b"v", b"k%d" % n) for n in range(3)])
    with opened(target_cluster, topic, lambda _: None, partitions=1) as log:
        topic_id = log.topic_id
    seen: list[int] = []
    log = TopicLog(
        topic,
        servers,
        lambda record: seen.append(record.offset),
        after={0: 2},
        after_id=topic_id if same else "of the former one",
    )
    try:
        log.start(Deadline(30))
    finally:
        log.stop(Deadline(10))
    assert topic_id
    assert seen == read


def test_own_records_are_read_back_by_the_barrier(target_cluster: KafkaCluster) -> None:
    seen: dict[bytes | None, bytes | None] = {}

    def note(record: LogRecord) -> None:
        seen[record.key] = record.value

    with opened(target_cluster, unique("log"), note) as log:
        futures = [log.send(b"k%d" % n, b"v%d" % n) for n in range(500)]
        futures.append(log.send(b"k0", None))
        log.read_to_end(Deadline(20))
        assert all(future.done() for future in futures)
        expected: dict[bytes | None, bytes | None] = {b"k%d" % n: b"v%d" % n for n in range(1, 500)}
        assert seen == {**expected, b"k0": None}


def test_records_go_to_javas_partition(target_cluster: KafkaCluster) -> None:
    """Vectors from Java's default partitioner."""
    with opened(target_cluster, unique("log"), lambda _: None, partitions=25) as log:
        placed = log.send(b'["conn",{"filename":"x"}]', b"v").result(20)
        assert placed.partition == 5
    with opened(target_cluster, unique("log"), lambda _: None, partitions=5) as log:
        assert log.send(b"status-connector-x", b"v").result(20).partition == 3
        assert log.send(b"status-task-x-0", b"v").result(20).partition == 0


def test_records_of_others_are_followed(target_cluster: KafkaCluster) -> None:
    seen: list[bytes | None] = []
    topic = unique("log")
    with opened(target_cluster, topic, lambda record: seen.append(record.value)) as log:
        produce(target_cluster.bootstrap_servers, topic, [Record(b"theirs", b"k", PARTITIONS - 1)])
        log.read_to_end(Deadline(20))
        assert seen == [b"theirs"]


@pytest.mark.parametrize("read_committed", [False, True])
def test_the_end_is_reached_behind_transaction_markers(
    target_cluster: KafkaCluster, read_committed: bool
) -> None:
    topic = create_topic(target_cluster.bootstrap_servers, "log", configs=COMPACT)
    produce_transactions(
        target_cluster.bootstrap_servers,
        topic,
        [([Record(b"kept", b"a")], True), ([Record(b"aborted", b"b")], False)],
    )
    seen: list[bytes | None] = []
    with opened(
        target_cluster,
        topic,
        lambda record: seen.append(record.value),
        read_committed=read_committed,
    ):
        assert seen == ([b"kept"] if read_committed else [b"kept", b"aborted"])


def test_a_failing_callback_ends_the_log_and_later_calls_say_why(
    target_cluster: KafkaCluster,
) -> None:
    def fail(record: LogRecord) -> None:
        raise ValueError(f"cannot take {record.value!r}")

    with opened(target_cluster, unique("log"), fail) as log:
        log.send(b"k", b"poison").result(20)
        with pytest.raises(ConnectError) as caught:
            log.read_to_end(Deadline(20))
        assert isinstance(caught.value.__cause__, ValueError)


def test_after_stop_nothing_can_be_sent(target_cluster: KafkaCluster) -> None:
    with opened(target_cluster, unique("log"), lambda _: None) as log:
        log.stop(Deadline(5))
        with pytest.raises(ConnectError, match="closed"):
            log.send(b"k", b"v")


def test_a_log_that_may_not_be_read_for_a_while_is_read_on(
    permitting_cluster: KafkaCluster,
) -> None:
    servers, topic = permitting_cluster.bootstrap_servers, unique("log")
    seen: list[bytes | None] = []
    with opened(
        permitting_cluster, topic, lambda record: seen.append(record.value), partitions=1
    ) as log:

        def unreadable() -> bool:
            try:
                log.read_to_end(Deadline(5))
            except DeadlineExceeded:
                return False
            except ConnectError as error:
                return "TOPIC_AUTHORIZATION_FAILED" in str(error)
            return False

        with denied(servers, topic, AclOperation.READ):
            log.send(b"k", b"unread").result(30)
            wait_until(unreadable, 30.0, "the log says why it is not read")

        def readable() -> bool:
            try:
                log.read_to_end(Deadline(5))
            except ConnectError:
                return False
            return True

        wait_until(readable, 60.0, "it is read on")
        assert seen == [b"unread"]
