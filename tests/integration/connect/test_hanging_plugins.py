"""Connectors and tasks that hang in one of their methods hold up no others, and no stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.bench import TIMEOUT_S, Bench, numbers
from tests.support.hanging import HangingConnector, HangingSinkConnector
from tests.support.plugins import Events
from tests.support.topics import unique
from tests.support.waiting import wait_until

# Runs when the connector is deleted.
AT_THE_END = ("stop", "task.stop", "task.close")


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    Events.release.clear()
    bench = Bench(target_cluster, {"task.shutdown.graceful.timeout.ms": "1000"})
    for connector in (HangingConnector, HangingSinkConnector):
        bench.plugins.register(connector)
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
