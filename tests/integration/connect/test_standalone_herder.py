"""The runtime on a real broker: both kinds of source tasks, from creation to a clean stop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.runtime.connector_status import UnknownConnector
from connect.runtime.errors import BadRequest
from connect.runtime.rest_entities import TaskId
from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic
from tests.support.workers.bench import KINDS, Bench, numbers
from tests.support.workers.plugins import Events, LaneConnector


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    Events.release.clear()
    bench = Bench(target_cluster)
    yield bench
    Events.release.set()
    bench.close()


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_run_and_their_records_arrive_in_order(bench: Bench, kind: str) -> None:
    bench.put(kind, groups="a;b", count="50")
    bench.arrived("a:49", "b:49")
    bench.becomes(State.RUNNING, State.RUNNING, State.RUNNING)
    of_a = [value for value in bench.values() if value is not None and value.startswith(b"a")]
    assert of_a == [value.encode() for value in numbers("a", 0, 50)]


def test_records_keep_their_headers_timestamps_and_missing_keys(bench: Bench) -> None:
    bench.put("RecordLane", count="2")
    bench.arrived("a:1")
    first, second = read_partition(bench.servers, bench.topic)
    assert (first.key, first.timestamp_ms, second.timestamp_ms) == (None, 1000, 1001)
    assert first.headers == (("lane", b"a"), ("none", None))


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_are_stored_at_the_interval(bench: Bench, kind: str) -> None:
    bench.put(kind, count="5")
    bench.arrived("a:4")
    bench.told("commit a")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_copied_twice_or_lost_over_a_clean_restart(bench: Bench, kind: str) -> None:
    bench.put(kind, groups="a;b", count="10")
    bench.arrived("a:0", "b:0")
    assert bench.close()
    bench.open()
    bench.put(kind, groups="a;b", count="20")
    bench.arrived("a:19", "b:19")
    assert sorted(map(str, bench.values())) == sorted(
        str(value.encode()) for lane in "ab" for value in numbers(lane, 0, 20)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_failing_task_shows_its_trace_and_touches_nothing_else(bench: Bench, kind: str) -> None:
    bench.put(kind, "bad", groups="x;y", fail_at="2")
    bench.put(kind, "good", groups="a", count="5")
    bench.arrived("a:4", "x:1", "y:1")
    bench.becomes(State.RUNNING, State.FAILED, State.FAILED, name="bad")
    bench.becomes(State.RUNNING, State.RUNNING, name="good")
    failed = bench.herder.status("bad").tasks[0].status
    assert failed.trace is not None
    assert "ConnectError: number 2 is not to be had" in failed.trace
    assert failed.worker_id == "w1"
    bench.told("stop x")


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_task_keeps_its_final_offsets_and_starts_there_again(
    bench: Bench, kind: str
) -> None:
    bench.put(kind, fail_at="2", count="5")
    bench.becomes(State.RUNNING, State.FAILED)
    bench.told("stop a")
    bench.herder.restart_task(TaskId("lanes", 0))
    bench.told("start a at [2]")
    bench.becomes(State.RUNNING, State.FAILED)


def test_a_task_that_fails_restarts_with_a_better_config(bench: Bench) -> None:
    bench.put("RecordLane", fail_at="2", count="5")
    bench.becomes(State.RUNNING, State.FAILED)
    bench.put("RecordLane", count="5")
    bench.arrived("a:4")
    bench.becomes(State.RUNNING, State.RUNNING)


def test_a_retriable_error_of_poll_means_no_records_now(bench: Bench) -> None:
    bench.put("RecordLane", flaky="yes", count="4")
    bench.arrived(*numbers("a", 0, 4))
    assert bench.states() == [State.RUNNING, State.RUNNING]


def test_a_record_that_the_broker_refuses_fails_the_task(bench: Bench) -> None:
    bench.put("RecordLane", count="1")
    bench.arrived("a:0")
    compacted = create_topic(bench.servers, "keys", configs={"cleanup.policy": "compact"})
    bench.put("RecordLane", "refused", count="1", topic=compacted)
    bench.becomes(State.RUNNING, State.FAILED, name="refused")
    trace = bench.herder.status("refused").tasks[0].status.trace
    assert trace is not None
    assert "INVALID_RECORD (87)" in trace
    assert bench.states() == [State.RUNNING, State.RUNNING]


def test_a_connector_that_cannot_start_is_failed_and_others_run(bench: Bench) -> None:
    bench.put("RecordLane", "bad", start="fails")
    bench.put("RecordLane", "good", count="2")
    bench.arrived("a:1")
    bench.becomes(State.FAILED, name="bad")
    trace = bench.herder.status("bad").status.trace
    assert trace is not None
    assert "the connector cannot start" in trace
    assert "connector stopped" in Events.of(bench.topic)


def test_a_connector_that_hangs_in_start_is_failed_and_says_where(bench: Bench) -> None:
    bench.close()
    bench.open(connector_start_timeout_s=0.5)
    bench.put("RecordLane", "stuck", start="hangs")
    bench.put("RecordLane", "good", count="2")
    bench.arrived("a:1")
    bench.becomes(State.FAILED, name="stuck")
    trace = bench.herder.status("stuck").status.trace
    assert trace is not None
    assert "did not start within 0.5 s" in trace
    assert "Events.release.wait" in trace


def test_more_tasks_than_allowed_fail_the_connector(bench: Bench) -> None:
    bench.put("RecordLane", groups="a;b;c", tasks_max="2")
    bench.becomes(State.FAILED)
    trace = bench.herder.status("lanes").status.trace
    assert trace is not None
    assert "3 tasks, which is greater than 2" in trace


def test_more_tasks_than_allowed_run_where_the_limit_is_not_enforced(bench: Bench) -> None:
    bench.put("RecordLane", groups="a;b;c", tasks_max="2", tasks_max_enforce="false")
    bench.becomes(*[State.RUNNING] * 4)
    bench.arrived(*numbers("c", 0, 3))


def test_unchanged_tasks_go_on_when_others_come_and_go(bench: Bench) -> None:
    bench.put("RecordLane", groups="a;b")
    bench.arrived("b:2")
    LaneConnector.instances["lanes"].regroup("a;b;c")
    bench.arrived("c:2")
    LaneConnector.instances["lanes"].regroup("a")
    bench.becomes(State.RUNNING, State.RUNNING)
    starts = [event for event in Events.of(bench.topic) if event.startswith("start")]
    assert sorted(starts) == ["start a at [0]", "start b at [0]", "start c at [0]"]


def test_a_transfer_task_takes_new_partitions_in_place(bench: Bench) -> None:
    bench.put("TransferLane", groups="a", in_place="yes")
    bench.arrived("a:2")
    LaneConnector.instances["lanes"].regroup("a,b")
    bench.arrived("b:2")
    assert "reconfigure a,b" in Events.of(bench.topic)
    assert "stop a" not in Events.of(bench.topic)


def test_a_transfer_task_that_declines_is_restarted_with_its_offsets(bench: Bench) -> None:
    bench.put("TransferLane", groups="a")
    bench.arrived("a:2")
    LaneConnector.instances["lanes"].regroup("a,b")
    bench.told("start a,b at [0, 3]")
    bench.becomes(State.RUNNING, State.RUNNING)


def test_what_a_changed_task_gives_up_is_stored_before_a_new_task_takes_it(bench: Bench) -> None:
    bench.put("TransferLane", groups="a,b", in_place="yes", count="5")
    bench.arrived("a:4", "b:4")
    LaneConnector.instances["lanes"].regroup("a;b")
    bench.told("start b at [5]")


@pytest.mark.parametrize("kind", KINDS)
def test_pause_holds_tasks_and_resume_lets_them_go_on(bench: Bench, kind: str) -> None:
    bench.put(kind, count="2")
    bench.arrived("a:1")
    bench.herder.pause_connector("lanes")
    bench.becomes(State.PAUSED, State.PAUSED)
    assert "stop a" not in Events.of(bench.topic)
    bench.herder.resume_connector("lanes")
    bench.becomes(State.RUNNING, State.RUNNING)


def test_delete_forgets_the_connector_but_not_its_offsets(bench: Bench) -> None:
    bench.put("RecordLane", count="2")
    bench.arrived("a:1")
    bench.herder.delete_connector("lanes")
    assert bench.herder.connectors() == []
    with pytest.raises(UnknownConnector, match="lanes"):
        bench.herder.status("lanes")
    bench.put("RecordLane", count="3")
    bench.told("start a at [2]")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"connector.class": "Nope"}, "Failed to find any class that implements Connector"),
        ({"connector.class": "RecordLane", "count": "many"}, "many for configuration count"),
        ({"connector.class": "RecordLane", "name": "other"}, "doesn't match connector name"),
        ({"connector.class": "RecordLane", "transforms": "t"}, "transforms.t.type"),
        ({}, "contains no connector type"),
    ],
)
def test_a_wrong_config_is_refused_and_changes_nothing(
    bench: Bench, config: dict[str, str], message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        bench.herder.put_connector("lanes", {"topic": bench.topic, **config})
    assert bench.herder.connectors() == []


def test_stop_keeps_to_its_budget_and_leaves_everything_unassigned(bench: Bench) -> None:
    for number in range(4):
        bench.put("RecordLane", f"r{number}", groups=f"r{number}", count="100")
        bench.put("TransferLane", f"t{number}", groups=f"t{number}", count="100")
    bench.arrived("r0:99", "t3:99")
    assert bench.close()
    for name in bench.herder.connectors():
        assert bench.states(name) == [State.UNASSIGNED, State.UNASSIGNED]


def test_a_task_that_does_not_stop_is_left_behind_within_the_budget(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("RecordLane", "stuck", groups="s", stop="hangs")
    bench.put("RecordLane", "good", groups="a")
    bench.arrived("a:2", "s:0")
    assert not bench.close()
    assert "Task stuck-0 did not stop in time" in caplog.text
    assert bench.states("good") == [State.UNASSIGNED, State.UNASSIGNED]
    assert "stop a" in Events.of(bench.topic)


def test_tasks_tell_the_health_of_their_partitions(bench: Bench) -> None:
    bench.put("TransferLane", groups="a,b", count="2")
    bench.arrived("a:1", "b:1")
    bench.becomes(State.RUNNING, State.RUNNING)
    (task,) = bench.herder.status("lanes").tasks
    assert [(health.topic, health.lag_records) for health in task.partitions] == [
        ("a", 0),
        ("b", 0),
    ]


def test_counters_of_connectors_tasks_and_records(bench: Bench) -> None:
    bench.put("RecordLane", groups="a;b", count="5")
    bench.arrived("a:4", "b:4")
    bench.told("commit a")
    collected = bench.metrics.collect()
    found = {(s.group, s.tags.get("connector"), s.tags.get("task")): s.values for s in collected}
    assert found["connect-worker-metrics", None, None]["connector-count"] == 1
    assert found["connect-worker-metrics", None, None]["task-count"] == 2
    assert found["source-task-metrics", "lanes", "0"]["source-record-write-total"] == 5
