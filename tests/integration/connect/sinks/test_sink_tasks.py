"""Sink tasks that refuse, wait and give back what they were given, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.workers.bench import Bench
from tests.support.workers.plugins import Events
from tests.support.workers.telling_sink import TellingSinkConnector


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    bench.plugins.register(TellingSinkConnector)
    yield bench
    bench.close()


def put_sink(bench: Bench, mode: str = "") -> None:
    bench.produce(b"one", b"two")
    # A group of its own: no test waits for the member of another.
    bench.put("TellingSink", bench.topic, topics=bench.topic, mode=mode)


def test_partitions_are_opened_committed_and_closed_in_this_order(bench: Bench) -> None:
    put_sink(bench)
    bench.told("put 1 b'two'")
    bench.close()
    events = Events.of(bench.topic)
    assert events[0] == "open [0]"
    assert bench.puts() == ["put 0 b'one'", "put 1 b'two'"]
    assert events[-2:] == ["commit [2]", "close [0]"]


def test_a_put_that_fails_fails_the_task(bench: Bench) -> None:
    put_sink(bench, "fails")
    bench.becomes(State.RUNNING, State.FAILED, name=bench.topic)
    trace = str(bench.herder.status(bench.topic).tasks[0].status.trace)
    assert "this sink is full" in trace
    assert "commit [2]" not in Events.of(bench.topic)


def test_records_that_were_refused_come_again_and_only_once(bench: Bench) -> None:
    put_sink(bench, "refuses")
    bench.told("commit [2]")
    assert bench.puts() == ["put 0 b'one'", "put 1 b'two'"]


def test_records_after_the_last_commit_come_again_when_a_commit_fails(bench: Bench) -> None:
    put_sink(bench, "forgets")
    bench.told("commit [2]")
    assert bench.puts().count("put 0 b'one'") == 2
    bench.becomes(State.RUNNING, State.RUNNING, name=bench.topic)
