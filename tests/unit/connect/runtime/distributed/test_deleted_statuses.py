"""Statuses that leaders delete: gone for what has ended, shown again for what runs."""

from __future__ import annotations

import pytest

from connect.runtime.states import InstanceId, State
from connect.storage.status_records import InstanceStatus
from tests.support.workers.driven_herder import TIMEOUT_S, Rig
from tests.unit.connect.runtime.distributed.steered import Steered, Told, running

R = State.RUNNING
CONNECTOR, TASK = InstanceId("c"), InstanceId("c", 0)


def delete(rig: Rig, instance: InstanceId) -> None:
    """As a leader does that led before."""
    rig.statuses.put(instance, InstanceStatus(State.DESTROYED, "other:8083", 1))


@pytest.mark.parametrize("deleted", [TASK, CONNECTOR], ids=str)
def test_statuses_that_are_deleted_while_their_tasks_run_are_shown_again(
    rig: Rig, deleted: InstanceId
) -> None:
    running(rig)
    delete(rig, deleted)
    rig.becomes("c", R, R)


def test_a_failure_whose_status_is_deleted_is_shown_again(rig: Rig) -> None:
    Steered.tasks = [{"n": "0", "step": "fails"}]
    rig.herder.put_connector_config(
        "c", {"connector.class": "Steered", "tasks.max": "1"}, allow_replace=True
    )
    rig.becomes("c", R, State.FAILED)
    delete(rig, TASK)
    rig.becomes("c", R, State.FAILED)
    assert "no further" in str(getattr(rig.status("c", 0), "trace", None))


def test_statuses_of_a_deleted_connector_do_not_come_back(rig: Rig) -> None:
    running(rig)
    Told.take()
    rig.herder.delete_connector("c")
    rig.until(lambda: Told.seen("stopped c-0"), "the end of the task")
    rig.until(lambda: rig.states("c") == [None], "the end of the statuses")
    rig.statuses.put(TASK, InstanceStatus(R, "other:8083", 1))
    delete(rig, CONNECTOR)
    rig.member.rebalance()
    rig.herder._loop.run(lambda: None, TIMEOUT_S)
    assert rig.states("c") == [None]


def test_a_late_status_of_a_task_goes_with_the_next_rebalance(rig: Rig) -> None:
    """Its connector is gone, and has no status to find it by."""
    running(rig)
    Told.take()
    rig.herder.delete_connector("c")
    rig.until(lambda: Told.seen("stopped c-0"), "the end of the task")
    rig.until(lambda: rig.states("c") == [None], "the end of the statuses")
    rig.statuses.put(TASK, InstanceStatus(State.UNASSIGNED, "other:8083", 1))
    assert rig.statuses.get(TASK) is not None
    rig.member.rebalance()
    rig.until(lambda: rig.statuses.get(TASK) is None, "the end of the late status")
