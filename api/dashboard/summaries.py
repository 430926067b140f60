"""Summarises a flow for the dashboard, from the statuses of its connectors and rows of its history.
Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from api.dashboard.clocks import clock_warning
from api.dashboard.models import (
    ConnectorView,
    FlowHeat,
    FlowPartitions,
    FlowSummary,
    Health,
    PartitionView,
    TaskView,
    TopicHeat,
    WorkerView,
)
from api.dashboard.views import MirrorView, Seen
from connect.clock import seconds_of
from connect.plugin import PartitionHealth
from connect.runtime.connector_status import ConnectorStatus, TaskStatus
from connect.runtime.states import State, Status

__all__ = ["LOSING_MS", "SORTS", "heat", "partition_view", "partitions_of", "summary", "top"]

LOSING_MS = 4 * 3600 * 1000
"""A loss that is expected within this time needs attention now."""
_LAGGING_MS = 60_000

_LEVELS_MS = (10_000, 60_000, 600_000, 3_600_000)
_UNKNOWN_LEVEL, _LOSING_LEVEL, _STUCK_LEVEL = "-", "6", "7"

_SEVERITY = {health: number for number, health in enumerate(Health)}

Found = tuple[str, TaskStatus, PartitionHealth]
"""A partition, with its connector and task."""


def _worst(healths: Iterable[Health]) -> Health:
    return max(healths, key=_SEVERITY.__getitem__, default=Health.OK)


def _partition_health(each: PartitionHealth) -> Health:
    if each.error is not None:
        return Health.STUCK
    if each.time_to_loss_ms is not None and each.time_to_loss_ms < LOSING_MS:
        return Health.LOSING
    if each.lag_records is None:
        return Health.UNKNOWN
    if each.lag_records and each.details.get("limited_by") is not None:
        return Health.LIMITED
    if each.lag_ms is not None and each.lag_ms >= _LAGGING_MS:
        return Health.LAGGING
    return Health.OK


def partitions_of(seen: Seen) -> list[Found]:
    """Return every known partition of a flow."""
    return [
        (connector.name, task, each)
        for _, connector in seen.connectors
        for task in connector.tasks
        for each in task.partitions
    ]


def partition_view(found: Found) -> PartitionView:
    connector, task, each = found
    limit = each.details.get("limited_by")
    return PartitionView(
        topic=each.topic,
        partition=each.partition,
        health=_partition_health(each),
        records=each.lag_records,
        bytes=each.lag_bytes,
        seconds=seconds_of(each.lag_ms),
        time_to_loss_seconds=seconds_of(each.time_to_loss_ms),
        limited_by=None if limit is None else str(limit),
        error=each.error,
        connector=connector,
        task=task.number,
        worker_id=task.status.worker_id,
    )


def _state_health(status: Status) -> Health:
    if status.state is State.FAILED:
        return Health.FAILED
    if status.state in (State.PAUSED, State.STOPPED):
        return Health.PAUSED
    if status.state is not State.RUNNING:
        return Health.UNKNOWN
    return Health.OK if status.trace is None else Health.STUCK


def _task_view(task: TaskStatus) -> TaskView:
    health = _worst([_state_health(task.status), *map(_partition_health, task.partitions)])
    if task.runs_elsewhere:
        health = _worst([health, Health.UNKNOWN])
    return TaskView(
        id=task.number,
        state=task.status.state.value,
        worker_id=task.status.worker_id,
        health=health,
        partitions=len(task.partitions),
        stuck=sum(each.error is not None for each in task.partitions),
        trace=task.status.trace,
    )


def _connector_view(kind: str, connector: ConnectorStatus) -> ConnectorView:
    tasks = [_task_view(task) for task in connector.tasks]
    return ConnectorView(
        name=connector.name,
        kind=kind,
        state=connector.status.state.value,
        worker_id=connector.status.worker_id,
        health=_worst([_state_health(connector.status), *(task.health for task in tasks)]),
        trace=connector.status.trace,
        tasks=tasks,
    )


def _workers(seen: Seen, copies: Callable[[str], bool]) -> list[WorkerView]:
    connectors: dict[str, int] = {}
    tasks: dict[str, int] = {}
    problems: dict[str, str] = {}
    for kind, connector in seen.connectors:
        worker = connector.status.worker_id
        connectors[worker] = connectors.get(worker, 0) + 1
        for task in connector.tasks:
            worker = task.status.worker_id
            tasks[worker] = tasks.get(worker, 0) + 1
            if copies(kind) and task.runs_elsewhere and task.unknown is not None:
                problems[worker] = task.unknown
    return [
        WorkerView(
            id=worker,
            connectors=connectors.get(worker, 0),
            tasks=tasks.get(worker, 0),
            problem=problems.get(worker),
        )
        for worker in sorted({*connectors, *tasks})
    ]


def _copies(kind: str) -> bool:
    return "Source" in kind


def summary(
    view: MirrorView,
    seen: Seen,
    recent: Mapping[str, Any] | None,
    losses: Sequence[Mapping[str, Any]],
    history_problem: str | None,
) -> FlowSummary:
    """Return the summary of a flow. `recent`: the rates of the last minute, from the history.
    `losses`: the events of a day."""
    connectors = [_connector_view(kind, each) for kind, each in seen.connectors]
    workers = _workers(seen, _copies)
    found = [each for _, _, each in partitions_of(seen)]
    healths = [_partition_health(each) for each in found]
    lost = sum(int(row["records"]) for row in losses)
    every = [*(each.health for each in connectors), *([Health.LOST] if losses else [])]
    if any(worker.problem for worker in workers):
        every.append(Health.UNKNOWN)
    health = _worst(every)
    ages = [each.lag_ms for each in found if each.lag_ms is not None]
    loss = [each.time_to_loss_ms for each in found if each.time_to_loss_ms is not None]
    return FlowSummary(
        name=view.name,
        source=view.source,
        target=view.target,
        health=health,
        why=_why(health, connectors, workers, found, healths, lost),
        partitions=len(found),
        stuck=sum(each.error is not None for each in found),
        lagging=sum(each.lag_ms is not None and each.lag_ms >= _LAGGING_MS for each in found),
        limited=healths.count(Health.LIMITED),
        lag_records=sum(each.lag_records or 0 for each in found),
        lag_bytes=sum(each.lag_bytes or 0 for each in found),
        lag_seconds=seconds_of(max(ages, default=None)),
        time_to_loss_seconds=seconds_of(min(loss, default=None)),
        records_per_second=None if recent is None else recent["records"],
        bytes_per_second=None if recent is None else recent["bytes"],
        latency_ms=None if recent is None else recent["latency_ms"],
        losses=len(losses),
        lost_records=lost,
        connectors=connectors,
        workers=workers,
        history=history_problem,
    )


def _why(
    health: Health,
    connectors: Sequence[ConnectorView],
    workers: Sequence[WorkerView],
    found: Sequence[PartitionHealth],
    healths: Sequence[Health],
    lost: int,
) -> str:
    """The sentence that explains the worst state."""
    of = [each for each, own in zip(found, healths, strict=True) if own is health]
    count = f"{len(of)} of {len(found)} partitions"
    if health is Health.FAILED:
        names = [c.name for c in connectors if c.state == State.FAILED.value] + [
            f"{c.name} task {t.id}"
            for c in connectors
            for t in c.tasks
            if t.state == State.FAILED.value
        ]
        return f"Failed: {', '.join(names)}"
    if health is Health.STUCK and of:
        return f"{count} make no progress, for example {of[0].name}: {of[0].error}"
    if health in (Health.STUCK, Health.UNKNOWN) and not of:
        for worker in workers:
            if worker.problem:
                return worker.problem
        for connector in connectors:
            states = [(connector.health, connector.state, connector.trace)]
            states += [(task.health, task.state, task.trace) for task in connector.tasks]
            for own, state, trace in states:
                if own is health and (trace or state != State.RUNNING.value):
                    first = (trace or "").partition("\n")[0]
                    return f"{connector.name} is {state}{first and ': '}{first}"
        return "Nothing is known yet"
    if health is Health.LOST:
        return f"{lost} records were lost in the last 24 hours: see the events"
    if health is Health.OK and (clock := clock_warning(found)):
        return f"Everything is copied in time, but {clock}"
    return {
        Health.LOSING: f"The source deletes uncopied records of {count} within four hours",
        Health.LAGGING: f"{count} are more than a minute behind",
        Health.LIMITED: f"A rate limit delays {count}",
        Health.PAUSED: "Paused or stopped by request",
        Health.UNKNOWN: f"The lag of {count} is not known yet",
    }.get(health, "Everything is copied in time")


SORTS: dict[str, Callable[[PartitionHealth], tuple[float, ...]]] = {
    # The first ones need somebody most.
    "worst": lambda p: (
        -_SEVERITY[_partition_health(p)],
        float("inf") if p.time_to_loss_ms is None else p.time_to_loss_ms,
        -(p.lag_records or 0),
    ),
    "loss": lambda p: (float("inf") if p.time_to_loss_ms is None else p.time_to_loss_ms,),
    "records": lambda p: (-(p.lag_records or 0),),
    "seconds": lambda p: (-(p.lag_ms or 0),),
    "topic": lambda p: (0.0,),
}


def top(
    flow: str, seen: Seen, sort: str, limit: int, text: str, losing: bool = False
) -> FlowPartitions:
    """Return the first partitions whose name contains `text`."""
    key = SORTS[sort]
    found = [
        each
        for each in partitions_of(seen)
        if text in each[2].name and not (losing and each[2].time_to_loss_ms is None)
    ]
    first = heapq.nsmallest(
        limit, found, key=lambda each: (key(each[2]), each[2].topic, each[2].partition)
    )
    return FlowPartitions(
        flow=flow, total=len(found), partitions=[partition_view(each) for each in first]
    )


def _level(each: PartitionHealth) -> str:
    health = _partition_health(each)
    if health is Health.STUCK:
        return _STUCK_LEVEL
    if health is Health.LOSING:
        return _LOSING_LEVEL
    if each.lag_records is None:
        return _UNKNOWN_LEVEL
    if not each.lag_records:
        return "0"
    age = each.lag_ms or 0
    return str(1 + sum(age >= limit for limit in _LEVELS_MS))


def heat(flow: str, seen: Seen, cells: int) -> FlowHeat:
    """Return the lag of all partitions by topics, the worst topics first, at most `cells`."""
    topics: dict[str, list[PartitionHealth]] = {}
    for _, _, each in partitions_of(seen):
        topics.setdefault(each.topic, []).append(each)

    def rank(topic: str) -> tuple[float, float, str]:
        own = topics[topic]
        worst = max(_SEVERITY[_partition_health(each)] for each in own)
        return (-worst, -max(each.lag_ms or 0 for each in own), topic)

    shown: list[TopicHeat] = []
    left = cells
    order = sorted(topics, key=rank)
    for topic in order:
        if len(topics[topic]) > left:
            break
        left -= len(topics[topic])
        shown.append(_topic_heat(topic, topics[topic]))
    omitted = order[len(shown) :]
    return FlowHeat(
        flow=flow,
        topics=shown,
        omitted_topics=len(omitted),
        omitted_partitions=sum(len(topics[topic]) for topic in omitted),
    )


def _topic_heat(topic: str, partitions: Sequence[PartitionHealth]) -> TopicHeat:
    levels = {each.partition: _level(each) for each in partitions}
    first, last = min(levels), max(levels)
    return TopicHeat(
        topic=topic,
        health=_worst(map(_partition_health, partitions)),
        partitions=len(levels),
        records=sum(each.lag_records or 0 for each in partitions),
        first=first,
        levels="".join(levels.get(n, _UNKNOWN_LEVEL) for n in range(first, last + 1)),
    )
