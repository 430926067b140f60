"""Connectors and tasks that hang in one of their methods hold up no others, and no stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from connect.errors import DeadlineExceeded
from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.records.topics import unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import TIMEOUT_S, Bench, numbers
from tests.support.workers.hanging import (
    HangingAtInitializeConnector,
    HangingConnector,
    HangingSinkConnector,
)
from tests.support.workers.plugins import Events

# Runs when the connector is deleted.
AT_THE_END = ("stop", "task.stop", "task.close")


def register(bench: Bench) -> None:
    for connector in (HangingConnector, HangingAtInitializeConnector, HangingSinkConnector):
        bench.plugins.register(connector)


@pytest.fixture
def bench(target_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr("connect.runtime.work.running_connectors._CONNECTOR_STOP_S", 0.5)
    Events.release.clear()
    bench = Bench(target_cluster, {"task.shutdown.graceful.timeout.ms": "1000"})
    register(bench)
    yield bench
    Events.release.set()
    bench.close()


def runs_another_connector(bench: Bench) -> None:
    bench.put("RecordLane", "good", groups="good", count="2")
    bench.arrived(*numbers("good", 0, 2))
    bench.becomes(State.RUNNING, State.RUNNING, name="good")


@pytest.mark.parametrize(
    "method",
    ["start", "task_configs", "stop", "task.start", "task.poll", "task.commit", "task.stop"],
)
def test_a_source_that_hangs_holds_up_nobody(bench: Bench, method: str) -> None:
    name = unique("hangs")
    bench.put("Hanging", name, hangs=method)
    if method in AT_THE_END:
        bench.arrived(*numbers("a", 0, 3))
        bench.herder.delete_connector(name)
    bench.told(f"hangs in {method}")
    runs_another_connector(bench)
    if method not in AT_THE_END:
        bench.herder.delete_connector(name)
    assert name not in bench.herder.connectors()
    bench.herder.restart_connector("good")
    bench.becomes(State.RUNNING, State.RUNNING, name="good")


@pytest.mark.parametrize(
    "method",
    ["task.start", "task.open", "task.put", "task.pre_commit", "task.close", "task.stop"],
)
def test_a_sink_that_hangs_holds_up_nobody(bench: Bench, method: str) -> None:
    name = unique("hangs")
    bench.produce(b"one")
    bench.put("HangingSink", name, hangs=method, topics=bench.topic)
    if method in AT_THE_END:
        wait_until(lambda: bench.herder.active_topics(name), TIMEOUT_S, "a record that is read")
        bench.herder.delete_connector(name)
    bench.told(f"hangs in {method}")
    runs_another_connector(bench)
    if method not in AT_THE_END:
        bench.herder.delete_connector(name)
    assert name not in bench.herder.connectors()


def test_a_validation_that_hangs_keeps_no_other_request_waiting(bench: Bench) -> None:
    config = {"connector.class": "Hanging", "topic": bench.topic, "hangs": "validate"}
    request = threading.Thread(target=bench.herder.validate, args=(config,), daemon=True)
    request.start()
    bench.told("hangs in validate")
    runs_another_connector(bench)
    assert request.is_alive()
    Events.release.set()
    request.join(TIMEOUT_S)
    assert not request.is_alive()


def requests_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("abstract_herder", "standalone.herder"):
        monkeypatch.setattr(f"connect.runtime.{module}.REQUEST_TIMEOUT_S", 0.5)


def test_a_request_whose_validation_hangs_is_answered_and_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"connector.class": "Hanging", "topic": bench.topic, "hangs": "validate"}
    with monkeypatch.context() as soon:
        requests_end_soon(soon)
        why = "^Request timed out. The worker is currently performing multi-property validation"
        with pytest.raises(DeadlineExceeded, match=why):
            bench.herder.validate(config)
        with pytest.raises(DeadlineExceeded, match=why):
            bench.put("Hanging", "stuck", hangs="validate")
    assert "Events.release.wait" in caplog.text, "the log says where it hangs"
    assert "stuck" not in bench.herder.connectors()
    runs_another_connector(bench)


def test_a_connector_that_hangs_before_its_start_holds_up_nobody(bench: Bench) -> None:
    name = unique("hangs")
    bench.put("HangingAtInitialize", name)
    wait_until(lambda: Events.of(name), TIMEOUT_S, "the hanging connector")
    runs_another_connector(bench)
    bench.herder.delete_connector(name)
    assert name not in bench.herder.connectors()


def test_a_restart_of_a_connector_that_hangs_is_answered_and_holds_up_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = unique("hangs")
    bench.put("Hanging", name, hangs="start")
    bench.told("hangs in start")
    with monkeypatch.context() as soon:
        requests_end_soon(soon)
        with pytest.raises(DeadlineExceeded):
            bench.herder.restart_connector(name)
    runs_another_connector(bench)


@pytest.mark.parametrize("method", ["start", "stop"])
def test_a_worker_starts_anew_though_a_connector_hung_at_its_end(bench: Bench, method: str) -> None:
    name, event = unique("hangs"), f"hangs in {method}"
    bench.put("Hanging", name, hangs=method)
    if method == "stop":
        bench.becomes(State.RUNNING, State.RUNNING, name=name)
    else:
        bench.told(event)
    bench.close()
    bench.told(event)
    bench.open()
    register(bench)
    bench.put("Hanging", name, hangs=method)
    if method == "stop":
        bench.becomes(State.RUNNING, State.RUNNING, name=name)
    else:
        wait_until(lambda: Events.of(bench.topic).count(event) == 2, TIMEOUT_S, "the second")
    runs_another_connector(bench)
