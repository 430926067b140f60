"""Record tasks that write exactly once, on a real broker: one worker's tasks, without a herder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.runtime.offset_management import ConnectorOffsets
from connect.runtime.offset_stores import task_transactional_id
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.rest_entities import OffsetEntry
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.states import InstanceId, State
from connect.runtime.tasks.host import TaskHost
from connect.runtime.worker import Worker
from deploy.brokers import KafkaCluster
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.plugins import Events, LaneConnector, RecordLaneTask, TransferLaneTask

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
TIMEOUT_S = 30.0
TASK = InstanceId("lanes", 0)
LANE = {"lane": "a"}
NEVER = "3600000"


def nothing() -> None:
    """A check that finds nothing wrong."""


class Tasks:
    """Runs of the one task of a connector, which may overlap as those of two workers do."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.servers = cluster.bootstrap_servers
        self.group = unique("exactly")
        self.topic = create_topic(self.servers, "once")
        self.offsets_topic = unique("once-offsets")
        self.runs: list[TaskHost] = []
        self.exactly_once = True
        self.worker = self._open()

    def _open(self) -> Worker:
        plugins = PluginRegistry(discover=False)
        plugins.register(LaneConnector, "test.RecordLaneConnector")
        worker = Worker(
            WorkerConfig.from_properties(
                {
                    "bootstrap.servers": self.servers,
                    "group.id": self.group,
                    "offset.storage.topic": self.offsets_topic,
                    "offset.storage.partitions": "1",
                    "offset.storage.replication.factor": "1",
                    "key.converter": BYTES,
                    "value.converter": BYTES,
                    "header.converter": BYTES,
                }
            ),
            plugins,
            MetricRegistry(),
            worker_id="w1",
            exactly_once=self.exactly_once,
        )
        worker.start(Deadline(TIMEOUT_S))
        return worker

    def switch_off(self) -> None:
        """Stop the tasks. The next ones run on a worker that writes at least once."""
        self.close()
        self.runs, self.exactly_once = [], False
        self.worker = self._open()

    def config(self, **options: str) -> dict[str, str]:
        dashed = {key.replace("_", "."): value for key, value in options.items()}
        own = {"connector.class": "RecordLane", "name": "lanes", "topic": self.topic}
        return {**own, "lanes": "a", "count": "3", **dashed}

    def run(
        self,
        before: Callable[[], None] = nothing,
        after: Callable[[], None] = nothing,
        **options: str,
    ) -> TaskHost:
        config = self.config(**options)
        plan = None
        if self.exactly_once:
            plan = ExactlyOncePlan(task_transactional_id(self.group, TASK), before, after)
        self.worker.statuses.forget(TASK)
        host = self.worker.make_task(
            TASK, RecordLaneTask, config, config, paused=False, exactly_once=plan
        )
        self.runs.append(host)
        host.start()
        return host

    def stop(self, host: TaskHost) -> None:
        deadline = Deadline(10)
        host.request_stop(deadline)
        assert host.join(deadline)

    def failure(self) -> str | None:
        status = self.worker.statuses.get(TASK)
        return status.trace if status is not None and status.state is State.FAILED else None

    def fails(self, reason: str) -> None:
        trace = wait_until(self.failure, TIMEOUT_S, "failure of the task")
        assert trace is not None
        assert re.search(reason, trace), trace

    def values(self, isolation: str = "read_committed") -> list[str]:
        return [
            (record.value or b"").decode().removeprefix("a:")
            for record in read_partition(self.servers, self.topic, isolation=isolation)
        ]

    def arrived(self, *values: str, isolation: str = "read_committed") -> None:
        wait_until(lambda: self.values(isolation) == list(values), TIMEOUT_S, f"{values}")

    def offset(self, topic: str) -> bytes | None:
        """The newest committed one."""
        found = read_partition(self.servers, topic, isolation="read_committed")
        return found[-1].value if found else None

    def told(self, event: str) -> None:
        wait_until(lambda: event in Events.of(self.topic), TIMEOUT_S, f"event {event}")

    def close(self) -> None:
        for host in self.runs:
            self.stop(host)
        self.worker.stop(Deadline(5))


@pytest.fixture
def tasks(target_cluster: KafkaCluster) -> Iterator[Tasks]:
    Events.release.clear()
    opened = Tasks(target_cluster)
    yield opened
    Events.release.set()
    opened.close()


def test_each_batch_is_committed_with_its_offset(tasks: Tasks) -> None:
    tasks.run()
    tasks.arrived("0", "1", "2")
    assert tasks.offset(tasks.offsets_topic) == b'{"last":2}'
    places = [record.offset for record in read_partition(tasks.servers, tasks.topic)]
    assert places == [0, 2, 4], "a marker follows each batch"
    tasks.told("commit a")


def test_what_was_not_committed_is_dropped_and_given_again(tasks: Tasks) -> None:
    crashed = tasks.run(transaction_boundary="interval", transaction_boundary_interval_ms=NEVER)
    tasks.arrived("0", "1", "2", isolation="read_uncommitted")
    assert tasks.values() == []
    tasks.run()
    tasks.arrived("0", "1", "2")
    assert tasks.values("read_uncommitted") == ["0", "1", "2", "0", "1", "2"]
    assert "start a at [0]" in Events.of(tasks.topic)
    assert crashed.alive, "it does not know yet"


def test_a_run_that_was_fenced_out_writes_nothing_more_and_says_why(tasks: Tasks) -> None:
    zombie = tasks.run(transaction_boundary="interval", transaction_boundary_interval_ms=NEVER)
    tasks.arrived("0", "1", "2", isolation="read_uncommitted")
    tasks.worker.fence_zombies("lanes", 1, tasks.config()).result(TIMEOUT_S)
    zombie.set_paused(True)
    tasks.fails("Failed to flush offsets and/or records for task lanes-0: .*Another producer has")
    assert tasks.values() == []


def test_a_task_that_fails_leaves_nothing_half_written(tasks: Tasks) -> None:
    tasks.run(fail_at="2", transaction_boundary="interval", transaction_boundary_interval_ms=NEVER)
    tasks.fails("number 2 is not to be had")
    assert tasks.values() == []
    tasks.run(count="4")
    tasks.arrived("0", "1", "2", "3")


def test_pausing_and_stopping_commit_what_is_open(tasks: Tasks) -> None:
    host = tasks.run(transaction_boundary="interval", transaction_boundary_interval_ms=NEVER)
    tasks.arrived("0", "1", "2", isolation="read_uncommitted")
    host.set_paused(True)
    tasks.arrived("0", "1", "2")
    assert tasks.offset(tasks.offsets_topic) == b'{"last":2}'


def test_an_interval_is_kept(tasks: Tasks) -> None:
    tasks.run(transaction_boundary="interval", transaction_boundary_interval_ms="300")
    tasks.arrived("0", "1", "2")


def test_a_connector_says_where_transactions_end(tasks: Tasks) -> None:
    tasks.run(transaction_boundary="connector", commit_at="1", abort_at="3", count="6")
    wait_until(lambda: tasks.values("read_uncommitted")[-1:] == ["5"], TIMEOUT_S, "the last record")
    assert tasks.values() == ["0", "1"]
    assert tasks.offset(tasks.offsets_topic) == b'{"last":3}'
    tasks.stop(tasks.runs[0])
    assert tasks.values() == ["0", "1"]
    tasks.run(transaction_boundary="connector", commit_at="5", count="6")
    tasks.arrived("0", "1", "4", "5")


def test_offsets_go_to_a_topic_of_the_connectors_own_and_then_to_the_workers(tasks: Tasks) -> None:
    own = unique("own-offsets")
    tasks.run(offsets_storage_topic=own)
    tasks.arrived("0", "1", "2")
    assert tasks.offset(own) == b'{"last":2}'
    wait_until(
        lambda: tasks.offset(tasks.offsets_topic) == b'{"last":2}', TIMEOUT_S, "the copied offset"
    )


def test_a_worker_that_writes_at_least_once_again_goes_on_at_offsets_of_another_cluster(
    tasks: Tasks, source_cluster: KafkaCluster
) -> None:
    other, own = source_cluster.bootstrap_servers, unique("own-offsets")
    create_topic(other, name=tasks.topic)
    clients: dict[str, Any] = {
        f"{kind}_override_bootstrap_servers": other for kind in ("producer", "consumer", "admin")
    }

    def found(topic: str) -> list[bytes | None]:
        return [record.value for record in read_partition(other, topic, isolation="read_committed")]

    tasks.run(offsets_storage_topic=own, **clients)
    copied = b'{"last":2}'
    wait_until(lambda: found(own)[-1:] == [copied], TIMEOUT_S, "the connector's own offset")
    wait_until(lambda: tasks.offset(tasks.offsets_topic) == copied, TIMEOUT_S, "the copied offset")
    tasks.switch_off()
    host = tasks.run(offsets_storage_topic=own, count="5", **clients)
    expected = [b"a:%d" % n for n in range(5)]
    wait_until(lambda: found(tasks.topic) == expected, TIMEOUT_S, "each record once")
    tasks.stop(host)
    assert found(own)[-1] == b'{"last":4}'
    assert tasks.values() == [], "nothing was written to the worker's cluster"


def test_records_for_the_tasks_own_offsets_topic_are_refused(tasks: Tasks) -> None:
    tasks.topic = tasks.offsets_topic
    tasks.run()
    tasks.fails("Source tasks may not produce to their own offsets topics")


def test_offsets_are_changed_in_a_transaction_that_fences_tasks_out(tasks: Tasks) -> None:
    zombie = tasks.run(transaction_boundary="interval", transaction_boundary_interval_ms=NEVER)
    tasks.arrived("0", "1", "2", isolation="read_uncommitted")
    offsets = ConnectorOffsets(tasks.worker)
    config = tasks.config()
    offsets.alter("lanes", config, [OffsetEntry(LANE, {"last": 7})], Deadline(TIMEOUT_S))
    assert offsets.read("lanes", config, Deadline(TIMEOUT_S)) == [OffsetEntry(LANE, {"last": 7})]
    zombie.set_paused(True)
    tasks.fails("Another producer has claimed")
    tasks.run(count="10")
    tasks.arrived("8", "9")


def test_nothing_is_claimed_when_the_leader_cannot_fence(tasks: Tasks) -> None:
    def refuse() -> None:
        raise ConnectError("fencing is not possible now")

    running = tasks.run()
    tasks.arrived("0", "1", "2")
    tasks.run(before=refuse)
    tasks.fails("fencing is not possible now")
    assert Events.of(tasks.topic).count("start a at [0]") == 1
    assert running.alive


def test_a_task_that_was_given_away_meanwhile_does_not_start(tasks: Tasks) -> None:
    def gone() -> None:
        raise ConnectError("the task is somebody else's now")

    tasks.run(after=gone)
    tasks.fails("the task is somebody else's now")
    assert Events.of(tasks.topic) == []


def test_a_task_that_moves_bytes_without_transactions_is_refused_where_they_are_required(
    tasks: Tasks,
) -> None:
    config = tasks.config(exactly_once_support="required")
    plan = ExactlyOncePlan(task_transactional_id(tasks.group, TASK), nothing, nothing)
    host = tasks.worker.make_task(
        TASK, TransferLaneTask, config, config, paused=False, exactly_once=plan
    )
    tasks.runs.append(host)
    host.start()
    tasks.fails("exactly.once.support=required: TransferLaneTask writes .* not in transactions")
