"""Sink tasks whose brokers do not accept their login fail, as in Java; those whose brokers are away
for a while do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.runtime.states import State
from deploy.brokers import KafkaRuntime
from tests.support.copier.proxy import TcpProxy
from tests.support.records.topics import unique
from tests.support.security.ending_password import EndingPassword, ending_password
from tests.support.waiting import wait_until
from tests.support.workers.bench import TIMEOUT_S, Bench
from tests.support.workers.telling_sink import TellingSinkConnector

BEFORE, AFTER = "the-password-before", "the-password-after"
REFUSED = "SASL SCRAM-SHA-256 at {} was refused"
UNANSWERED = "Listing topics failed"
# Nothing listens there.
NOWHERE = "127.0.0.1:1"
# Who cannot log in cannot leave its group either; the next task waits for so long.
SESSION = {"session.timeout.ms": "6000"}


@pytest.fixture(scope="module")
def served(kafka: KafkaRuntime, session_logs: Path) -> Iterator[EndingPassword]:
    with ending_password("sink-logins", BEFORE, kafka, session_logs) as brokers:
        yield brokers


@pytest.fixture
def brokers(served: EndingPassword) -> EndingPassword:
    """They have the password of the start again."""
    served.change(BEFORE)
    return served


@pytest.fixture
def bench(brokers: EndingPassword) -> Iterator[Bench]:
    """Its worker needs no login, so that it outlives the password of its sinks."""
    bench = Bench(brokers.cluster)
    bench.plugins.register(TellingSinkConnector)
    yield bench
    bench.close()


def put_sink(bench: Bench, login: dict[str, str], name: str = "") -> str:
    name = name or unique("sink")
    own = {**SESSION, **login}
    overrides = {f"consumer.override.{key}": value for key, value in own.items()}
    bench.put("TellingSink", name, topics=bench.topic, **overrides)
    return name


def trace(bench: Bench, name: str) -> str:
    return str(bench.herder.status(name).tasks[0].status.trace)


def test_a_wrong_password_fails_the_task_and_is_called_that(
    brokers: EndingPassword, bench: Bench
) -> None:
    login = brokers.login(AFTER)
    name = put_sink(bench, login)
    bench.becomes(State.RUNNING, State.FAILED, name=name)
    assert REFUSED.format(login["bootstrap.servers"]) in trace(bench, name)
    assert "invalid credentials" in trace(bench, name)
    assert AFTER not in trace(bench, name)


def test_a_password_that_ends_fails_the_task_and_the_new_one_lets_it_go_on(
    brokers: EndingPassword, bench: Bench
) -> None:
    name = put_sink(bench, brokers.login(BEFORE))
    bench.produce(b"one")
    bench.told("put 0 b'one'")
    brokers.change(AFTER)
    bench.becomes(State.RUNNING, State.FAILED, name=name)
    assert "invalid credentials" in trace(bench, name)
    bench.produce(b"two")
    put_sink(bench, brokers.login(AFTER), name)
    bench.told("put 1 b'two'")
    bench.becomes(State.RUNNING, State.RUNNING, name=name)


def test_brokers_that_cannot_be_reached_fail_no_task(
    brokers: EndingPassword, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    name = put_sink(bench, {**brokers.login(BEFORE), "bootstrap.servers": NOWHERE})
    # By then a connection of our own has been refused, too.
    wait_until(lambda: caplog.text.count(UNANSWERED) > 2, TIMEOUT_S, "three lost questions")
    assert bench.states(name) == [State.RUNNING, State.RUNNING]


def test_brokers_that_do_not_answer_for_a_while_fail_no_task(
    brokers: EndingPassword, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    login = brokers.login(BEFORE)
    port = int(login["bootstrap.servers"].rpartition(":")[2])
    bench.produce(b"one")
    with TcpProxy(port) as proxy:
        proxy.cut()
        name = put_sink(bench, {**login, "bootstrap.servers": proxy.address})
        wait_until(lambda: caplog.text.count(UNANSWERED) > 1, TIMEOUT_S, "two lost questions")
        bench.becomes(State.RUNNING, State.RUNNING, name=name)
        # Connections break in the middle of their login.
        proxy.heal()
        bench.told("put 0 b'one'")
        bench.becomes(State.RUNNING, State.RUNNING, name=name)
