"""The difference between running and wanted tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connect.runtime.standalone.task_plan import TaskPlan, plan_tasks

A, B, C = {"t": "a"}, {"t": "b"}, {"t": "c"}


def test_equal_configs_are_kept_whatever_the_order_of_their_keys() -> None:
    assert plan_tasks([{"x": "1", "y": "2"}], [{"y": "2", "x": "1"}]) == TaskPlan((0,), (), (), ())


def test_changes_starts_and_stops() -> None:
    assert plan_tasks([A, B], [A, C, C]) == TaskPlan((0,), (1,), (2,), ())
    assert plan_tasks([A, B, C], [B]) == TaskPlan((), (0,), (), (1, 2))
    assert plan_tasks([], [A]) == TaskPlan((), (), (0,), ())
    assert plan_tasks([A], []) == TaskPlan((), (), (), (0,))


_configs = st.lists(st.sampled_from([A, B, C]), max_size=6)


@given(running=_configs, wanted=_configs)
def test_every_task_is_in_one_list_and_following_the_plan_gives_what_is_wanted(
    running: list[dict[str, str]], wanted: list[dict[str, str]]
) -> None:
    plan = plan_tasks(running, wanted)
    everything = sorted((*plan.keep, *plan.change, *plan.start, *plan.stop))
    assert everything == list(range(max(len(running), len(wanted))))
    result = dict(enumerate(running))
    for number in (*plan.change, *plan.start):
        result[number] = wanted[number]
    for number in plan.stop:
        del result[number]
    assert result == dict(enumerate(wanted))
