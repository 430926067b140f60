"""A distributed herder between its group, its config topic and its plugins, without Kafka.

The same on real brokers: tests/integration/test_distributed_group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from connect.clock import Deadline
from connect.errors import ConnectError
from connect.runtime.distributed.membership import Membership
from connect.runtime.errors import BadRequest, NotAssigned, NotLeader
from connect.runtime.rest_entities import TaskId
from connect.runtime.states import InstanceId, State, TargetState
from connect.storage.config_records import RestartRequest
from connect.storage.status_records import InstanceStatus
from tests.support.waiting import wait_until
from tests.support.workers.driven_herder import TIMEOUT_S, Rig, herder_rig
from tests.support.workers.driven_member import OTHER_URL, Plan
from tests.unit.connect.runtime.distributed.steered import (
    Steered,
    SteeredTask,
    Told,
    config,
    put,
    running,
)

R, P, F, U, S = State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED, State.STOPPED
C, T0, T1 = ("c", -1), ("c", 0), ("c", 1)


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    """Runs requests beside the test."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


def followed(rig: Rig, *assigned: tuple[str, int]) -> None:
    """From now on another worker leads, and this one runs what it has been assigned."""
    rig.member.otherwise = Plan()
    rig.member.plan(Plan(assigned))
    rig.until(lambda: not rig.herder.is_leader, "another leader")
    with pytest.raises(NotLeader):
        rig.herder.delete_connector("none")


# Assignments.


LONGER_THAN_A_TEST_S = 1_000.0


def test_a_new_connector_is_assigned_and_then_its_tasks(rig: Rig) -> None:
    Steered.tasks = [{"n": "0"}, {"n": "1"}]
    running(rig, tasks=2)
    assert [info.config["n"] for info in rig.herder.task_infos("c")] == ["0", "1"]
    assert rig.member.reported[-1] is not None
    status = rig.status("c", 1)
    assert status is not None
    assert (status.worker_id, status.version) == ("me:8083", "7.1")


def test_what_is_revoked_has_stopped_and_said_so_before_the_next_join(rig: Rig) -> None:
    running(rig)
    Told.take()
    rig.member.hold()
    rig.member.plan(Plan(revoked=[C, T0]), Plan())
    seen: list[tuple[list[str], list[State | None]]] = []
    rejoin = rig.member.request_rejoin

    def on_rejoin(reason: str) -> None:
        if "revoked" in reason:
            seen.append((Told.take(), rig.states("c")))
        rejoin(reason)

    rig.member.request_rejoin = on_rejoin  # type: ignore[method-assign]
    rig.member.go_on()
    rig.until(lambda: seen, "the rejoin after revocations")
    assert seen == [(["stopped c-0", "stopped c"], [U, U])]
    rig.until(lambda: rig.member.reported[-1] == (), "a join that says that nothing runs here")


def test_nothing_is_said_of_tasks_that_never_began_here(rig: Rig) -> None:
    running(rig)
    elsewhere = InstanceStatus(R, "other:8083", 0, None, None)
    rig.statuses.put(InstanceId("d", 0), elsewhere)
    # It is not begun, as the leader has read on; then it is somebody else's.
    rig.member.plan(Plan([("d", 0)], offset=10_000), Plan(revoked=[("d", 0)]), Plan())
    rig.until(lambda: not rig.member.has_plans, "three rounds")
    rig.member.turns(2)
    assert rig.status("d", 0) == elsewhere


def test_a_worker_that_is_behind_the_assignment_starts_nothing(rig: Rig) -> None:
    put(rig)
    rig.becomes("c", R, R)
    rig.member.plan(Plan(revoked=[C, T0]), Plan())
    rig.becomes("c", U, U)
    Told.take()
    rig.member.plan(*[Plan([C, T0], offset=10_000)] * 3, Plan([C, T0]))
    rig.becomes("c", R, R)
    assert Told.take() == ["starting c", "started c", "started c-0 with 0"]
    late = [event for event in rig.member.events if "older configs" in event]
    assert len(late) == 3


def test_after_a_round_that_failed_the_worker_joins_again_with_what_it_runs(rig: Rig) -> None:
    running(rig)
    before = len(rig.member.reported)
    Told.take()
    rig.member.plan(Plan(failed=True), Plan())
    rig.until(lambda: len(rig.member.reported) >= before + 2, "two rounds")
    assert {frozenset(one or ()) for one in rig.member.reported[before:]} == {frozenset([C, T0])}
    rig.member.turns(2)
    assert Told.take() == []
    assert rig.states("c") == [R, R]


def test_a_leader_that_could_not_assign_leaves_the_statuses_of_others_alone(rig: Rig) -> None:
    status = InstanceStatus(R, "other:8083", 0, None, None)
    rig.statuses.put(InstanceId("unread"), status)
    before = len(rig.member.reported)
    rig.member.hold()
    rig.member.plan(Plan(failed=True, leader="me"), Plan())
    rig.member.go_on()
    rig.until(lambda: len(rig.member.reported) >= before + 2, "two rounds")
    assert rig.status("unread") == status
    rig.member.rebalance()
    rig.until(lambda: rig.state("unread") is None, "the leader, who has read everything, clears up")


def lose_coordinator(rig: Rig) -> None:
    running(rig)
    rig.member.hold()
    Told.take()
    rig.member.lose()
    rig.becomes("c", U, R)
    assert Told.take() == ["stopped c"]


def test_without_a_coordinator_tasks_stand_still_and_the_next_join_says_so(rig: Rig) -> None:
    lose_coordinator(rig)
    assert [task.status.state for task in rig.herder.status("c").tasks] == [U]
    rig.member.go_on()
    rig.becomes("c", R, R)
    assert rig.member.reported[-1] is None
    assert Told.take() == ["starting c", "started c"]


def test_a_task_that_another_worker_may_have_run_meanwhile_begins_anew(rig: Rig) -> None:
    lose_coordinator(rig)
    rig.member.generation += 1
    rig.member.go_on()
    rig.until(lambda: Told.seen("started c-0 with 0"), "the task anew")
    assert Told.take()[0] == "stopped c-0"


def test_a_task_that_another_worker_gets_ends_where_it_stands(rig: Rig) -> None:
    lose_coordinator(rig)
    rig.member.plan(Plan([C]))
    rig.member.go_on()
    rig.until(lambda: Told.seen("started c"), "the connector")
    assert Told.take() == ["stopped c-0", "starting c", "started c"]
    assert rig.states("c") == [R, U]


def test_a_worker_that_stops_without_a_coordinator_stores_nothing_of_frozen_tasks(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    drained: list[SteeredTask] = []
    monkeypatch.setattr(SteeredTask, "drain", lambda self, deadline: drained.append(self))
    lose_coordinator(rig)
    assert rig.herder.stop(Deadline(TIMEOUT_S))
    assert Told.take() == ["stopped c-0"]
    assert drained == []


def test_what_is_said_of_a_lost_task_is_as_old_as_the_loss(rig: Rig) -> None:
    lose_coordinator(rig)
    rig.member.generation += 1
    other = InstanceStatus(R, "other:8083", rig.member.generation)
    rig.statuses.put(InstanceId("c", 0), other)
    rig.member.plan(Plan([C]))
    rig.member.go_on()
    rig.until(lambda: Told.seen("started c"), "the connector")
    assert rig.status("c", 0) == other


def test_a_worker_that_is_out_of_its_group_holds_its_tasks_until_it_has_joined_again(
    rig: Rig,
) -> None:
    running(rig)
    rig.member.turns(3)
    rig.member.hold()
    Told.take()
    rig.member.evict()
    rig.until(lambda: Told.seen("stopped c"), "the end of the connector")
    rig.member.generation += 1
    Told.take()
    rig.member.go_on()
    rig.until(lambda: Told.seen("started c-0 with 0"), "the task anew")
    # It claims what nobody else may have been given yet, and begins with what is stored.
    assert set(rig.member.reported[-1] or ()) == {("c", -1), ("c", 0)}
    assert Told.take()[0] == "stopped c-0"


def test_a_delayed_rebalance_is_asked_for_when_it_is_due_and_told_of_once(rig: Rig) -> None:
    before = len(rig.member.reported)
    rig.member.plan(Plan(delay_ms=300), Plan())
    rig.until(lambda: len(rig.member.reported) >= before + 2, "the round after the delay")
    assert not rig.member.has_plans


def test_eager_groups_give_everything_up_before_they_join() -> None:
    Steered.reset()
    with herder_rig(Steered, connect_protocol="eager") as rig:
        rig.start().await_ready()
        running(rig)
        Told.take()
        rig.member.rebalance()
        rig.until(lambda: Told.seen("started c-0 with 0"), "the task again")
        assert Told.take()[:2] == ["stopped c-0", "stopped c"]
        rig.becomes("c", R, R)


# Ordering of requests and changes.


def test_a_request_that_comes_when_others_work_changes_waits_for_the_new_assignment(
    rig: Rig, aside: ThreadPoolExecutor
) -> None:
    rig.member.hold()
    rig.store.put_connector_config("c", config(name="c"))
    rig.until(lambda: any("have changed" in event for event in rig.member.events), "a rejoin")
    waiting = aside.submit(rig.herder._loop.run, lambda: None, TIMEOUT_S)
    rig.member.turns(3)
    assert not waiting.done()
    rig.member.go_on()
    waiting.result(TIMEOUT_S)
    rig.becomes("c", R, R)


def test_a_connector_that_was_read_before_it_was_told_of_is_assigned_all_the_same(
    rig: Rig,
) -> None:
    running(rig, "d")
    heard, tell = threading.Event(), threading.Event()
    listener = rig.store.listener
    assert listener is not None
    on_update = listener.on_connector_config_update

    def late(connector: str) -> None:
        heard.set()
        assert tell.wait(TIMEOUT_S)
        on_update(connector)

    listener.on_connector_config_update = late  # type: ignore[method-assign]
    writer = threading.Thread(
        target=rig.store.put_connector_config, args=("c", config(name="c"), None)
    )
    writer.start()
    assert heard.wait(TIMEOUT_S)
    # Now the herder reads the store for another reason.
    rig.herder.pause_connector("d")
    rig.becomes("d", P, P)
    tell.set()
    writer.join(TIMEOUT_S)
    rig.becomes("c", R, R)


def test_a_change_that_came_before_the_join_needs_no_further_join(rig: Rig) -> None:
    def asked() -> int:
        return sum("have changed" in event for event in rig.member.events)

    rig.member.hold()
    rig.store.put_connector_config("c", config(name="c", start="hangs"))
    rig.until(asked, "a rejoin")
    rig.store.put_connector_config("d", config(name="d", start="hangs"))
    rig.member.go_on()
    rig.until(lambda: Told.seen("starting d"), "both assigned")
    rig.member.turns(3)
    assert asked() == 1


def test_tasks_whose_configs_came_with_the_assignment_begin_again_without_another(
    rig: Rig,
) -> None:
    running(rig)
    rig.member.turns(3)
    before = len(rig.member.events)
    rig.member.hold()
    rig.store.put_connector_config("d", config(name="d", start="hangs"))
    rig.until(lambda: len(rig.member.events) > before, "a rejoin")
    Told.take()
    before = len(rig.member.events)
    (task,) = rig.herder.task_infos("c")
    # The connector itself has not said that its tasks are others, and is not asked here.
    rig.herder.publisher.forget("c")
    rig.store.put_task_configs("c", [{**task.config, "n": "7"}])
    rig.member.go_on()
    rig.until(lambda: Told.seen("started c-0 with 7"), "the task with its new config")
    assert [event for event in rig.member.events[before:] if event.startswith("rejoin")] == []
    rig.becomes("c", R, R)


def test_however_many_requests_there_are_the_group_gets_its_turns(rig: Rig) -> None:
    stop, served = threading.Event(), threading.Semaphore(0)

    def again() -> None:
        served.release()
        if not stop.is_set():
            rig.herder.post(again)

    rig.herder.post(again)
    try:
        for _ in range(3):
            assert served.acquire(timeout=TIMEOUT_S)
        rig.member.turns(3)
    finally:
        stop.set()


def test_requests_that_only_a_leader_answers_say_who_leads(rig: Rig) -> None:
    running(rig)
    followed(rig)
    for ask in (
        lambda: put(rig, "d"),
        lambda: rig.herder.delete_connector("c"),
        lambda: rig.herder.stop_connector("c"),
        lambda: rig.herder.patch_connector_config("c", {}),
        lambda: rig.herder.reset_offsets("c"),
    ):
        with pytest.raises(NotLeader) as refused:
            ask()
        assert refused.value.url == OTHER_URL
    rig.herder.restart_connector("c")


def test_a_leader_sends_restarts_to_the_worker_that_runs_it(rig: Rig) -> None:
    put(rig, initial="x")
    rig.becomes("c", R, R)
    rig.member.plan(Plan(revoked=[C, T0]), Plan(leader="me"))
    rig.becomes("c", U, U)
    rig.until(lambda: not rig.member.has_plans, "both rounds")
    with pytest.raises(NotAssigned):
        rig.herder.restart_task(TaskId("c", 0))
    with pytest.raises(NotAssigned):
        rig.herder.restart_connector("c")


# Failures.


def test_a_task_that_failed_stays_failed_through_rebalances_that_leave_it_here(rig: Rig) -> None:
    put(rig)
    Steered.tasks = [{"n": "0", "step": "fails"}, {"n": "1"}]
    rig.until(lambda: Told.seen("started c"), "the start")
    Steered.regroup(*Steered.tasks)
    rig.becomes("c", R, F, R)
    Told.take()
    for _ in range(2):
        joined = len(rig.member.reported)
        rig.member.rebalance()
        rig.until(lambda joined=joined: len(rig.member.reported) > joined, "a round")  # type: ignore[misc]
    rig.member.turns(2)
    assert Told.take() == []
    assert rig.states("c") == [R, F, R]


def test_a_failure_is_still_to_be_seen_when_the_task_was_revoked(rig: Rig) -> None:
    Steered.tasks = [{"step": "fails"}]
    put(rig)
    rig.becomes("c", R, F)
    rig.member.plan(Plan(revoked=[C, T0]), Plan())
    rig.becomes("c", U, F)
    status = rig.status("c", 0)
    assert status is not None
    assert "no further" in (status.trace or "")
    rig.member.plan(Plan([C, T0]))
    rig.until(lambda: Told.seen("started c-0 with None"), "the task's new begin")


def test_a_connector_that_cannot_start_is_failed_and_touches_nothing_else(rig: Rig) -> None:
    running(rig, "good")
    put(rig, "bad", start="fails")
    rig.becomes("bad", F)
    status = rig.status("bad")
    assert status is not None
    assert "no start" in (status.trace or "")
    assert rig.states("good") == [R, R]


def test_a_connector_that_cannot_be_made_when_it_is_resumed_is_failed(rig: Rig) -> None:
    running(rig)
    rig.herder.pause_connector("c")
    rig.becomes("c", P, P)
    Steered.unmakeable = True
    rig.herder.resume_connector("c")
    rig.becomes("c", F, R)
    rig.herder._loop.run(lambda: None, TIMEOUT_S)
    Steered.unmakeable = False
    rig.herder.restart_connector("c")
    rig.becomes("c", R, R)


def test_a_connector_deleted_while_it_starts_does_not_come_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connect.runtime.work.running_connectors._CONNECTOR_STOP_S", 0.2)
    put(rig, start="hangs")
    rig.until(lambda: Told.seen("starting c"), "the start")
    rig.herder.delete_connector("c")
    rig.until(lambda: rig.member.reported[-1] == (), "the revocation")
    Told.release.set()
    rig.until(lambda: Told.seen("stopped c"), "the connector to end")
    assert rig.state("c") is None


def test_a_task_that_never_stops_is_left_behind_unassigned(rig: Rig) -> None:
    Steered.tasks = [{"n": "0", "stop": "hangs"}]
    running(rig)
    rig.member.plan(Plan(revoked=[C, T0]), Plan())
    rig.becomes("c", U, U)
    Told.release.set()
    rig.until(lambda: Told.seen("stopped c-0"), "the task to end at last")
    assert rig.states("c") == [U, U]


def test_a_herder_that_never_stops_says_where_it_is(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    began, hanging = threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        hanging.wait(LONGER_THAN_A_TEST_S)

    rig.herder._loop.requests.submit(hang)
    assert began.wait(TIMEOUT_S)
    with caplog.at_level("ERROR"):
        assert not rig.herder.stop(Deadline(1.5))
    hanging.set()
    assert "The herder thread did not stop in time and is abandoned" in caplog.text
    assert "hanging.wait(LONGER_THAN_A_TEST_S)" in caplog.text


# Restarts.


def test_restarting_what_has_failed_leaves_the_rest_alone(rig: Rig) -> None:
    Steered.tasks = [{"step": "fails"}, {"n": "1"}]
    put(rig)
    rig.becomes("c", R, F, R)
    Told.take()
    shown = rig.herder.restart_connector_and_tasks("c", only_failed=True, include_tasks=True)
    assert (shown.state, [task.state for task in shown.tasks]) == (
        "RUNNING",
        ["RESTARTING", "RUNNING"],
    )
    rig.until(lambda: Told.seen("started c-0 with None"), "the restart")
    rig.becomes("c", R, F, R)
    assert not Told.seen("started c-1 with 1")
    assert not Told.seen("started c")


def test_a_worker_restarts_its_own_part_of_what_another_leader_asked_for(rig: Rig) -> None:
    Steered.tasks = [{"n": "0"}, {"n": "1"}]
    running(rig, tasks=2)
    rig.member.plan(Plan(revoked=[C, T0]), Plan())
    rig.becomes("c", U, U, R)
    Told.take()
    rig.store.put_restart_request(RestartRequest("c", only_failed=False, include_tasks=True))
    rig.until(lambda: Told.seen("started c-1 with 1"), "the restart")
    assert Told.take() == ["stopped c-1", "started c-1 with 1"]


# Changed configs.


def test_only_tasks_with_other_configs_begin_anew(rig: Rig) -> None:
    Steered.tasks = [{"n": "0"}, {"n": "1"}]
    running(rig, tasks=2)
    Told.take()
    Steered.regroup({"n": "0"}, {"n": "one"}, {"n": "2"})
    rig.becomes("c", R, R, R, R)
    assert Told.take() == ["stopped c-1", "started c-1 with one", "started c-2 with 2"]


def test_a_new_connector_config_restarts_the_connector_and_all_its_tasks(rig: Rig) -> None:
    running(rig)
    Told.take()
    put(rig, more="x")
    rig.until(lambda: Told.seen("started c-0 with 0"), "the task anew")
    assert Told.take() == [
        "stopped c",
        "starting c",
        "started c",
        "stopped c-0",
        "started c-0 with 0",
    ]


def when_joined(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do this in the next join, after the worker has said what it has read."""
    acts = deque([act])
    completed = Membership.on_join_complete

    def complete(*arguments: Any) -> None:
        while acts:
            acts.popleft()()
        completed(*arguments)

    monkeypatch.setattr(Membership, "on_join_complete", complete)


def test_a_config_that_is_read_while_its_new_connector_is_assigned_is_not_missed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.member.hold()
    rig.store.put_connector_config("c", config(name="c"))
    second = config(name="c", start="fails")
    when_joined(monkeypatch, lambda: rig.store.put_connector_config("c", second))
    rig.member.go_on()
    rig.until(lambda: rig.state("c") is F, "a start with the second config")


def test_a_connector_that_is_read_after_it_was_assigned_starts_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    when_joined(monkeypatch, lambda: rig.store.put_connector_config("c", config(name="c")))
    rig.member.otherwise = Plan([C], offset=rig.store.snapshot().offset + 1)
    rig.member.rebalance()
    rig.until(lambda: rig.state("c") is R, "a start")
    rig.member.turns(2)
    assert Told.take() == ["starting c", "started c"]


def test_a_stopped_connector_has_no_tasks_and_takes_none(rig: Rig) -> None:
    running(rig)
    rig.herder.stop_connector("c")
    rig.becomes("c", S)
    key = rig.store.snapshot().session_key
    assert key is not None
    with pytest.raises(BadRequest, match="for stopped connector c"):
        rig.put_task_configs("c", [{"n": "7"}])
    rig.herder.resume_connector("c")
    rig.becomes("c", R, R)


def test_a_connector_created_paused_has_no_tasks_before_it_is_resumed(rig: Rig) -> None:
    rig.herder.put_connector_config(
        "c", config(), allow_replace=False, initial_state=TargetState.PAUSED
    )
    rig.becomes("c", P)
    rig.herder.resume_connector("c")
    rig.becomes("c", R, R)


def test_tasks_whose_configs_can_no_longer_be_resolved_show_why(tmp_path: Path) -> None:
    Steered.reset()
    secrets = tmp_path / "secrets"
    secrets.write_text("password=x")
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    with herder_rig(Steered, config_providers="f", config_providers_f_class=provider) as rig:
        rig.start().await_ready()
        running(rig, password=f"${{f:{secrets}:password}}")
        secrets.unlink()
        rig.store.put_task_configs("c", [{"n": "1", "task.class": "x"}])
        rig.becomes("c", R, F)
        status = rig.status("c", 0)
        assert status is not None
        assert "secrets" in (status.trace or "")


# The end.


def test_stopping_ends_all_work_before_the_group_is_left(rig: Rig) -> None:
    running(rig)
    Told.take()
    assert rig.herder.stop(Deadline(TIMEOUT_S))
    assert sorted(Told.take()) == ["stopped c", "stopped c-0"]
    assert rig.member.events[-1] == "close"
    assert rig.states("c") == [U, U]
    with pytest.raises(ConnectError, match="shutting down"):
        rig.herder.delete_connector("c")


def test_a_worker_can_be_stopped_while_it_joins() -> None:
    Steered.reset()
    with herder_rig(Steered) as rig:
        rig.member.hold()
        rig.start()
        rig.member.turns(2)
        assert not rig.herder.await_ready(0)
        assert rig.herder.stop(Deadline(TIMEOUT_S))
        assert rig.member.events == ["close"]


def test_what_ends_the_herder_by_itself_is_raised_and_ends_the_work(rig: Rig) -> None:
    running(rig)
    rig.member.fail(ConnectError("the group refuses us"))
    with pytest.raises(ConnectError, match="the group refuses us"):
        rig.until(lambda: False, "the failure")
    # The failure is there before the work has ended.
    wait_until(lambda: rig.states("c") == [U, U], TIMEOUT_S, "the end of the work")
    with pytest.raises(ConnectError, match="shutting down"):
        rig.herder.delete_connector("c")
