"""The status store without Kafka: what it writes after what others wrote."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

import pytest

from connect.clients.librdkafka.topic_log import LogRecord, TopicLog, TopicSpec
from connect.clock import Deadline
from connect.errors import AuthenticationFailed, BrokerUnavailable, ConnectError
from connect.plugin import RecordMetadata
from connect.storage.instance_id import InstanceId, State
from connect.storage.status_records import (
    InstanceStatus,
    TopicStatus,
    encode_status,
    status_key,
    topic_key,
)
from connect.storage.status_store import KafkaStatusStore

CONNECTOR, TASK = InstanceId("c"), InstanceId("c", 0)


class Log:
    """Writes at once; what was written is read when the test says so."""

    def __init__(self) -> None:
        self.silent: list[Future[Any]] | None = None
        """Gets the futures of writes that no broker answers, if it is a list."""
        self.written: list[tuple[bytes | None, bytes | None]] = []
        self.read = 0
        self.store = KafkaStatusStore(
            TopicSpec("statuses"), {}, make_log=lambda *_, **__: cast(TopicLog, self)
        )

    def send(self, key: bytes | None, value: bytes | None) -> Future[RecordMetadata]:
        sent: Future[Any] = Future()
        if self.silent is not None:
            self.silent.append(sent)
            return sent
        self.written.append((key, value))
        sent.set_result(None)
        return sent

    def fail_then_retry(self) -> None:
        """No broker answers what is under way; the store then writes it again if it still wants."""
        self.fail(BrokerUnavailable("no broker answers"))
        self.silent = None
        self.store._write_again()

    def fail(self, error: ConnectError) -> None:
        failed, self.silent = self.silent or [], []
        for sent in failed:
            sent.set_exception(error)

    def read_all(self) -> None:
        while self.read < len(self.written):
            key, value = self.written[self.read]
            self.read += 1
            self.store._take(LogRecord(0, self.read, key, value, 0))


def status(state: State, generation: int = 5) -> InstanceStatus:
    return InstanceStatus(state, "me:8083", generation)


@pytest.mark.parametrize("deleted", [TASK, CONNECTOR], ids=str)
@pytest.mark.parametrize("state", [State.RUNNING, State.UNASSIGNED, State.FAILED])
def test_a_deleted_status_does_not_come_back(deleted: InstanceId, state: State) -> None:
    log = Log()
    told: list[InstanceId] = []
    log.store.set_listener(told.append)
    log.store.put(CONNECTOR, status(State.RUNNING))
    log.store.put(TASK, status(state))
    log.read_all()
    log.written.append((status_key(deleted), None))
    log.read_all()
    assert log.store.get(TASK) is None
    assert len(log.written) == 3
    assert told == [deleted]


def test_a_word_on_an_earlier_generation_leaves_that_of_the_newest_to_be_tried_again() -> None:
    log = Log()
    log.store.put(CONNECTOR, status(State.RUNNING, 7))
    log.store.put_safe(TASK, status(State.UNASSIGNED, 5))
    assert log.store._generation == 7


def test_a_status_is_retried_after_a_rebalance_that_left_its_instance_here() -> None:
    log = Log()
    log.store.put(CONNECTOR, status(State.RUNNING, 5))
    log.read_all()
    log.silent = []
    log.store.put(CONNECTOR, status(State.PAUSED, 5))
    log.store.put(TASK, status(State.RUNNING, 6))
    log.fail_then_retry()
    log.read_all()
    assert log.store.get(CONNECTOR) == status(State.PAUSED, 5)
    assert log.store.get(TASK) == status(State.RUNNING, 6)
    assert log.store.flush(Deadline(0.0))


def test_a_status_is_dropped_when_another_worker_has_the_instance_since() -> None:
    log = Log()
    log.silent = []
    log.store.put(CONNECTOR, status(State.PAUSED, 5))
    log.store.put(TASK, status(State.RUNNING, 6))
    others = InstanceStatus(State.RUNNING, "other:8083", 6)
    log.written.append((status_key(CONNECTOR), encode_status(others)))
    log.read_all()
    log.fail_then_retry()
    log.read_all()
    assert log.store.get(CONNECTOR) == others
    assert log.store.flush(Deadline(0.0))


def test_the_end_of_a_lost_instance_is_dropped_after_a_rebalance() -> None:
    log = Log()
    log.store.put(CONNECTOR, status(State.RUNNING, 5))
    log.read_all()
    log.silent = []
    log.store.put_safe(CONNECTOR, status(State.UNASSIGNED, 5))
    log.store.put(TASK, status(State.RUNNING, 6))
    log.fail_then_retry()
    log.read_all()
    assert log.store.get(CONNECTOR) == status(State.RUNNING, 5)
    assert log.store.flush(Deadline(0.0))


def test_a_status_that_is_newer_than_a_deletion_still_outlasts_late_ones() -> None:
    log = Log()
    log.written.append((status_key(CONNECTOR), None))
    log.store.put(CONNECTOR, status(State.RUNNING, 7))
    log.read_all()
    late = InstanceStatus(State.UNASSIGNED, "other:8083", 5)
    log.written.append((status_key(CONNECTOR), encode_status(late)))
    log.read_all()
    assert log.store.get(CONNECTOR) == status(State.RUNNING, 7)


def test_a_deleted_topic_is_reported_whoever_deleted_it() -> None:
    log = Log()
    told: list[tuple[str, str]] = []
    log.store.set_topic_listener(lambda connector, topic: told.append((connector, topic)))
    log.store.put_topic(TopicStatus("t", "c", 0, 5))
    log.read_all()
    assert not told
    log.written.append((topic_key("c", "t"), None))
    log.read_all()
    assert told == [("c", "t")]
    assert log.store.get_topic("c", "t") is None


def test_a_status_waits_while_the_login_is_refused_which_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Log()
    log.silent = []
    log.store.put(CONNECTOR, status(State.RUNNING))
    for _ in range(3):
        log.fail(AuthenticationFailed("SASL PLAIN was refused"))
        log.store._write_again()
    assert caplog.text.count("SASL PLAIN was refused") == 1
    log.fail_then_retry()
    log.read_all()
    assert log.store.get(CONNECTOR) == status(State.RUNNING)
    assert log.store.flush(Deadline(0.0))


def test_a_stop_does_not_wait_for_a_login_that_is_refused() -> None:
    log = Log()
    log.silent = []
    log.store.put(CONNECTOR, status(State.RUNNING))
    log.store._stopping = True
    log.fail(AuthenticationFailed("SASL PLAIN was refused"))
    assert log.store.flush(Deadline(0.0))
