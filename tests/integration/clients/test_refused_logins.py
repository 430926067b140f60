"""Whoever waits for a broker that does not accept the password any more is told so at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connect.clients.librdkafka.record_sender import RecordSender
from connect.clients.librdkafka.topic_log import TopicLog, TopicSpec
from connect.clients.transactions.atomic_writer import TransactionalSender
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import AuthenticationFailed, ConnectError, RetriableError
from connect.runtime.sink.consumer import SinkConsumer
from deploy.brokers import KafkaRuntime
from tests.support.records.topics import create_topic, unique
from tests.support.security.ending_password import EndingPassword, ending_password
from tests.support.waiting import wait_until

OLD, NEW = "before", "after"
REFUSED = "SASL SCRAM-SHA-256 at 127.0.0.1:.* was refused"
AMPLE_S = 60.0
TOLD_S = 10.0
"""The session of 3 s, the refusal, and a second until it is asked for."""


@pytest.fixture(scope="module")
def brokers(kafka: KafkaRuntime, session_logs: Path) -> Iterator[EndingPassword]:
    with ending_password("refusing", OLD, kafka, session_logs) as brokers:
        yield brokers


@contextmanager
def another_password(brokers: EndingPassword) -> Iterator[None]:
    brokers.change(NEW)
    try:
        yield
    finally:
        brokers.change(OLD)


@pytest.fixture
def log(brokers: EndingPassword) -> Iterator[TopicLog]:
    topic = unique("log")
    log = TopicLog(topic, brokers.login(OLD), lambda _: None, create=TopicSpec(topic, 1, 1))
    try:
        log.start(Deadline(AMPLE_S))
        log.send(b"k", b"v").result(AMPLE_S)
        yield log
    finally:
        log.stop(Deadline(TOLD_S))


def told(call: Callable[[], object]) -> AuthenticationFailed | None:
    """The refusal that a call raises within `TOLD_S`; None if it is well."""
    began = Deadline(TOLD_S)
    try:
        call()
    except AuthenticationFailed as error:
        began.check("being told of the refusal")
        return error
    except RetriableError:
        began.check("being told of a connection that has just ended")
    return None


def test_a_write_to_a_log_is_refused_and_works_again_with_the_password(
    brokers: EndingPassword, log: TopicLog
) -> None:
    def write() -> None:
        log.send(b"k", b"v").result(TOLD_S)

    with another_password(brokers):
        refusal = wait_until(lambda: told(write), AMPLE_S, "a refused write")
        with pytest.raises(AuthenticationFailed, match=REFUSED):
            write()
    wait_until(lambda: not _refused(write), AMPLE_S, "a write that works")
    assert "Producing to log" in str(refusal)


def _refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except ConnectError:
        return True
    return False


def test_reading_a_log_to_its_end_is_refused(brokers: EndingPassword, log: TopicLog) -> None:
    def read() -> None:
        log.read_to_end(Deadline(AMPLE_S))

    with another_password(brokers):
        wait_until(lambda: told(read), AMPLE_S, "a refused read")
        with pytest.raises(AuthenticationFailed, match=REFUSED):
            read()
    wait_until(lambda: not _refused(read), AMPLE_S, "reading works")


def test_a_log_that_is_stopped_does_not_wait_for_what_is_refused(
    brokers: EndingPassword, log: TopicLog
) -> None:
    def write() -> None:
        log.send(b"k", b"v").result(TOLD_S)

    with another_password(brokers):
        wait_until(lambda: told(write), AMPLE_S, "a refused write")
        waiting = log.send(b"k", b"v")
        most = Deadline(TOLD_S)
        log.stop(Deadline(AMPLE_S))
        most.check("stopping")
        assert isinstance(waiting.exception(0), AuthenticationFailed)


def test_a_transaction_is_refused(brokers: EndingPassword) -> None:
    topic = create_topic(brokers.cluster.bootstrap_servers, "log")
    sender = TransactionalSender(brokers.login(OLD), unique("id"))
    try:
        sender.claim(Deadline(AMPLE_S))
        with another_password(brokers), pytest.raises(AuthenticationFailed, match=REFUSED):
            wait_until(
                lambda: sender.write(topic, [(b"k", b"v")], Deadline(AMPLE_S)), AMPLE_S, "a refusal"
            )
    finally:
        sender.close(Deadline(1.0))


def test_the_consumer_of_a_sink_task_is_refused(brokers: EndingPassword) -> None:
    topic = create_topic(brokers.cluster.bootstrap_servers, "log")
    consumer = SinkConsumer(
        {**brokers.login(OLD), "group.id": unique("group"), "auto.offset.reset": "earliest"},
        {"topics": topic},
        SYSTEM_CLOCK,
        on_assign=lambda _: {},
        on_revoke=lambda _: None,
        on_lost=lambda _: None,
        on_commit=lambda *_: None,
    )
    sender = RecordSender(brokers.login(OLD))
    try:
        sender.send_future(topic, b"k", b"v").result(AMPLE_S)
        wait_until(lambda: consumer.poll(0.2), AMPLE_S, "a record")
        with another_password(brokers), pytest.raises(AuthenticationFailed, match=REFUSED):
            wait_until(lambda: consumer.poll(0.2), AMPLE_S, "a refusal")
    finally:
        sender.close(Deadline(1.0))
        consumer.close(Deadline(AMPLE_S))


def test_a_sender_that_does_not_ask_for_it_goes_on_trying(brokers: EndingPassword) -> None:
    """Records of connectors wait for the password as long as their delivery timeout says."""
    topic = create_topic(brokers.cluster.bootstrap_servers, "log")
    sender = RecordSender(brokers.login(NEW))
    try:
        sent = sender.send_future(topic, b"k", b"v")
        assert not sender.flush(Deadline(3.0))
        with another_password(brokers):
            assert sent.result(AMPLE_S).offset == 0
    finally:
        sender.close(Deadline(1.0))
