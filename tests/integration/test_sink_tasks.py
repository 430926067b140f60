"""Sink tasks that refuse, wait and give back what they were given, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from connect.errors import BrokerUnavailable, ConnectError
from connect.plugin import SinkRecord, SinkTask, TopicPartition
from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.bench import Bench
from tests.support.plugins import Events, SimpleSinkConnector


class TellingSinkConnector(SimpleSinkConnector):
    """One task, which tells what it was given."""

    def task_class(self) -> type[SinkTask]:
        return TellingSinkTask


class TellingSinkTask(SinkTask):
    """Options: `mode` = "fails", "refuses" (each second put) or "forgets" (the first commit)."""

    def start(self, config: Mapping[str, str]) -> None:
        self._mode, self._topic = config.get("mode"), config["topic"]
        self._puts = self._commits = 0

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell(f"open {sorted(partition for _, partition in partitions)}")

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._puts += 1
        if self._mode == "fails":
            raise ConnectError("this sink is full")
        if self._mode == "refuses" and self._puts % 2:
            self.context.retry_after(0.1)
            raise BrokerUnavailable("the other side is away")
        for record in records:
            self._tell(f"put {record.original_offset} {record.value!r}")

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if offsets:
            self._commits += 1
            if self._mode == "forgets" and self._commits == 1:
                raise ConnectError("what was put is lost")
            self._tell(f"commit {sorted(offsets.values())}")
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell(f"close {sorted(partition for _, partition in partitions)}")

    def stop(self) -> None:
        """Nothing was opened."""

    def _tell(self, event: str) -> None:
        Events.tell(self._topic, event)


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
