"""Brings running tasks to new configs with as little standing still as possible.

What a task gives up must be stored before another one looks for it, so the order is: end the tasks
that are too many; offer changed configs to running tasks, restart those that decline; have changed
tasks store their offsets; then start what is new.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from connect.clock import Deadline
from connect.runtime.standalone.task_plan import plan_tasks
from connect.runtime.states import State
from connect.runtime.tasks.host import TaskHost, stop_tasks
from connect.runtime.worker import Worker

__all__ = ["all_offered", "offered", "update_tasks"]

_log = logging.getLogger(__name__)

# A task looks for requests between two turns of about a second; ten of these is no answer.
_RECONFIGURE_S = 10.0


def update_tasks(
    worker: Worker,
    connector: str,
    running: Sequence[TaskHost],
    wanted: Sequence[Mapping[str, str]],
    make: Callable[[int], TaskHost],
    *,
    restart_all: bool = False,
) -> list[TaskHost]:
    """Returns the hosts of the wanted tasks, all started. Called on the herder's thread.

    `restart_all`: the connector's own config has changed, and with it the converters and clients
    of all tasks, so none can stay as it is.
    """
    graceful_s = worker.config.task_shutdown_graceful_timeout_s
    plan = plan_tasks([host.config for host in running], wanted)
    tasks = list(running)
    stop_tasks([tasks[number] for number in plan.stop], Deadline(graceful_s, worker.clock))
    for number in reversed(plan.stop):
        worker.statuses.forget(tasks.pop(number).instance)
    if restart_all:
        restart = sorted([*plan.keep, *plan.change])
    else:
        restart = [number for number in plan.change if not offered(tasks[number], wanted[number])]
    stop_tasks([tasks[number] for number in restart], Deadline(graceful_s, worker.clock))
    for number in restart:
        # Also where the old one had failed: its successor is not FAILED until it fails itself.
        worker.statuses.move(tasks[number].instance, State.UNASSIGNED)
    fresh = [*restart, *plan.start]
    if fresh:
        _commit(worker, [tasks[number] for number in plan.change if number not in restart])
    for number in fresh:
        host = make(number)
        tasks[number : number + 1] = [host]
        host.start()
    kept = [number for number in plan.keep if number not in restart]
    if len(kept) < max(len(running), len(wanted)):
        _log.info(
            "Tasks of %s: %d unchanged, %d reconfigured in place, %d restarted, %d new, %d stopped",
            connector,
            len(kept),
            len(wanted) - len(kept) - len(restart) - len(plan.start),
            len(restart),
            len(plan.start),
            len(plan.stop),
        )
    return tasks


def offered(host: TaskHost, config: Mapping[str, str]) -> bool:
    """Whether the running task took the config; waits some seconds for its answer."""
    return all_offered([(host, config)])[0]


def all_offered(offers: Sequence[tuple[TaskHost, Mapping[str, str]]]) -> list[bool]:
    """The same of several tasks, which are waited for together."""
    asked = [host.reconfigure(config) if host.alive else None for host, config in offers]
    deadline = Deadline(_RECONFIGURE_S)
    return [
        answer is not None and _taken(host, answer, deadline)
        for (host, _), answer in zip(offers, asked, strict=True)
    ]


def _taken(host: TaskHost, answer: Future[bool], deadline: Deadline) -> bool:
    try:
        return answer.result(max(0.0, deadline.remaining()))
    except FutureTimeout:
        _log.warning("Restarting task %s: it did not accept its new config in time", host.instance)
    except Exception as error:  # noqa: BLE001 - plugin code; a restart gives it the config, too
        _log.warning("Task %s failed to apply its new config: %s", host.instance, error)
    return False


def _commit(worker: Worker, hosts: Sequence[TaskHost]) -> None:
    deadline = Deadline(worker.config.offset_flush_timeout_s, worker.clock)
    for host, stored in [(host, host.commit_soon()) for host in hosts]:
        try:
            stored.result(deadline.remaining())
        except Exception as error:  # noqa: BLE001 - whatever it is, the cost is copying twice
            _log.warning(
                "Task %s did not store its offsets before other tasks take over its partitions: %s",
                host.instance,
                error or type(error).__name__,
            )
