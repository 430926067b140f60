"""A task that stands still: it moves nothing, and goes on or ends as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

import pytest

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.metrics.registry import MetricRegistry
from connect.metrics.task_metrics import TaskMetrics
from connect.metrics.worker_metrics import HostedTask, WorkerMetrics
from connect.runtime.states import InstanceId, StatusBook
from connect.runtime.tasks.host import TaskHost
from connect.runtime.tasks.task import WorkerTask
from tests.support.waiting import wait_until

TIMEOUT_S = 10.0


class Turns(WorkerTask):
    """Counts its turns, and tells how it ended."""

    def __init__(self) -> None:
        self.turns = 0
        self.ended: list[str] = []
        self.unanswered = False
        """Whether its cluster does not answer, so that finishing takes all the time it gets."""
        self.when_reconfigured: Callable[[], None] = lambda: None
        self._woken = threading.Event()

    def start(self) -> None:
        """Nothing is to be opened."""

    def turn(self) -> None:
        self.turns += 1
        self._woken.wait(TIMEOUT_S)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        self.when_reconfigured()
        return True

    def pause(self) -> None:
        """Nothing moves."""

    def resume(self) -> None:
        """Nothing moves."""

    def commit_soon(self) -> Future[None]:
        return Future()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        if self.unanswered:
            threading.Event().wait(deadline.remaining())
        self.ended.append("finished")
        return not self.unanswered

    def close(self) -> None:
        if self.unanswered:
            threading.Event().wait(0.1)  # closing takes a moment, too
        self.ended.append("closed")


@pytest.fixture
def task() -> Turns:
    return Turns()


@pytest.fixture
def host(task: Turns) -> Iterator[TaskHost]:
    figures = TaskMetrics("c", 0, SYSTEM_CLOCK)
    made = TaskHost(
        InstanceId("c", 0),
        task,
        object,
        {},
        StatusBook("w"),
        paused=False,
        final_timeout_s=1.0,
        metrics=HostedTask(WorkerMetrics("w", "1", MetricRegistry(), dict, SYSTEM_CLOCK), figures),
    )
    made.start()
    wait_until(lambda: task.turns == 1, TIMEOUT_S, "the first turn")
    made.freeze()
    # Requests are served before a turn: once two were, a turn would have been between them.
    for _ in range(2):
        assert made.reconfigure({}).result(TIMEOUT_S)
    yield made
    made.request_stop(Deadline(TIMEOUT_S))
    made.join(Deadline(TIMEOUT_S))


def test_it_serves_requests_and_takes_no_turn(task: Turns, host: TaskHost) -> None:
    assert task.turns == 1
    assert host.alive


def test_it_goes_on(task: Turns, host: TaskHost) -> None:
    host.thaw()
    wait_until(lambda: task.turns > 1, TIMEOUT_S, "the next turn")


def test_it_ends_as_any_other_when_it_is_stopped(task: Turns, host: TaskHost) -> None:
    host.request_stop(Deadline(TIMEOUT_S))
    assert host.join(Deadline(TIMEOUT_S))
    assert (task.turns, task.ended) == (1, ["finished", "closed"])


def test_a_task_whose_cluster_does_not_answer_ends_within_the_time_it_is_given(
    task: Turns, host: TaskHost, caplog: pytest.LogCaptureFixture
) -> None:
    task.unanswered = True
    stop = Deadline(2.0)
    host.request_stop(stop)
    assert host.join(stop)
    assert task.ended == ["finished", "closed"]
    assert "abandoned" not in caplog.text


def test_it_stores_nothing_when_it_is_another_workers(task: Turns, host: TaskHost) -> None:
    host.disown(Deadline(TIMEOUT_S))
    assert host.join(Deadline(TIMEOUT_S))
    assert (task.turns, task.ended) == (1, ["closed"])


def test_it_takes_no_turn_when_it_becomes_another_workers_while_it_serves_a_request(
    task: Turns, host: TaskHost
) -> None:
    """A turn would store its offsets over those of the other worker."""
    task.when_reconfigured = lambda: host.disown(Deadline(TIMEOUT_S))
    assert host.reconfigure({}).result(TIMEOUT_S)
    assert host.join(Deadline(TIMEOUT_S))
    assert (task.turns, task.ended) == (1, ["closed"])
