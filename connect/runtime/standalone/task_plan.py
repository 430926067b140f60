"""Plans how running tasks change when their connector generates new task configs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["TaskPlan", "plan_tasks"]

TaskConfig = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """Numbers of tasks, each ascending, each task in one list."""

    keep: tuple[int, ...]
    change: tuple[int, ...]
    start: tuple[int, ...]
    stop: tuple[int, ...]


def plan_tasks(running: Sequence[TaskConfig], wanted: Sequence[TaskConfig]) -> TaskPlan:
    """Compare task i's running config with the wanted one; maps are equal whatever their order."""
    both = range(min(len(running), len(wanted)))
    return TaskPlan(
        keep=tuple(i for i in both if dict(running[i]) == dict(wanted[i])),
        change=tuple(i for i in both if dict(running[i]) != dict(wanted[i])),
        start=tuple(range(len(running), len(wanted))),
        stop=tuple(range(len(wanted), len(running))),
    )
