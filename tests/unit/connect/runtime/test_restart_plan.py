"""Which instances a restart request means (KIP-745)."""

from __future__ import annotations

import pytest

from connect.runtime.rest_entities import ConnectorStateInfo, TaskStateInfo
from connect.runtime.restart_plan import plan_restart
from connect.storage.config_records import RestartRequest


def status(connector: str, *tasks: str) -> ConnectorStateInfo:
    return ConnectorStateInfo(
        "c",
        connector,
        "w",
        [TaskStateInfo(number, state, "w", "trace") for number, state in enumerate(tasks)],
        "source",
        "trace",
    )


@pytest.mark.parametrize(
    ("only_failed", "include_tasks", "connector", "restarted", "tasks"),
    [
        (False, False, "RUNNING", True, ()),
        (False, True, "RUNNING", True, (0, 1, 2)),
        (True, False, "RUNNING", False, ()),
        (True, False, "FAILED", True, ()),
        (True, True, "RUNNING", False, (1,)),
        (True, True, "FAILED", True, (1,)),
    ],
)
def test_what_is_restarted(
    only_failed: bool,
    include_tasks: bool,
    connector: str,
    restarted: bool,
    tasks: tuple[int, ...],
) -> None:
    request = RestartRequest("c", only_failed=only_failed, include_tasks=include_tasks)
    plan = plan_restart(request, status(connector, "RUNNING", "FAILED", "PAUSED"))
    assert (plan.restart_connector, plan.tasks) == (restarted, tasks)
    assert plan.shown.state == ("RESTARTING" if restarted else connector)
    shown = [task.state for task in plan.shown.tasks]
    assert [number for number, state in enumerate(shown) if state == "RESTARTING"] == list(tasks)


def test_what_is_restarted_shows_no_trace_any_more() -> None:
    request = RestartRequest("c", only_failed=True, include_tasks=True)
    shown = plan_restart(request, status("FAILED", "RUNNING", "FAILED")).shown
    assert shown.trace is None
    assert [task.trace for task in shown.tasks] == ["trace", None]
