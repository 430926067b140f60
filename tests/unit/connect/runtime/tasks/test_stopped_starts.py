"""A task that is stopped before it has begun: what it says of that, and in which state it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import BrokerUnavailable, ConnectError, Interrupted
from connect.metrics.registry import MetricRegistry
from connect.metrics.task_metrics import TaskMetrics
from connect.metrics.worker_metrics import HostedTask, WorkerMetrics
from connect.runtime.states import InstanceId, State, StatusBook
from connect.runtime.tasks.host import TaskHost
from connect.runtime.tasks.task import WorkerTask

TIMEOUT_S = 10.0
TASK = InstanceId("c", 0)


class Waiting(WorkerTask):
    """Waits in its start until it is to stop, and then raises `error`."""

    def __init__(self, error: ConnectError) -> None:
        self._error = error
        self._asked = threading.Event()
        self.closed = False

    def start(self) -> None:
        assert self._asked.wait(TIMEOUT_S)
        raise self._error

    def stopping(self) -> None:
        self._asked.set()

    def turn(self) -> None:
        raise AssertionError("it never began")

    def wake(self) -> None:
        """Nothing waits but its start."""

    def pause(self) -> None:
        """Nothing moves."""

    def resume(self) -> None:
        """Nothing moves."""

    def commit_soon(self) -> Future[None]:
        return Future()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        raise AssertionError("it never began")

    def close(self) -> None:
        self.closed = True


def stopped(error: ConnectError) -> tuple[Waiting, State | None]:
    """The task, and its last state."""
    task, statuses = Waiting(error), StatusBook("w")
    workers = WorkerMetrics("w", "1", MetricRegistry(), dict, SYSTEM_CLOCK)
    host = TaskHost(
        TASK,
        task,
        object,
        {},
        statuses,
        paused=False,
        final_timeout_s=1.0,
        metrics=HostedTask(workers, TaskMetrics("c", 0, SYSTEM_CLOCK)),
    )
    host.start()
    deadline = Deadline(TIMEOUT_S)
    host.request_stop(deadline)
    assert host.join(deadline)
    status = statuses.get(TASK)
    return task, None if status is None else status.state


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("INFO", logger="connect.runtime.tasks.host"):
        yield


def test_what_it_gave_up_waiting_for_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    task, state = stopped(Interrupted("the task was stopped before the leader allowed it to start"))
    assert (task.closed, state) == (True, State.UNASSIGNED)
    told = [record for record in caplog.records if "before it started" in record.getMessage()]
    assert [(record.levelname, record.exc_info) for record in told] == [("INFO", None)]
    assert "Traceback" not in caplog.text


def test_what_really_failed_is_told_in_full(caplog: pytest.LogCaptureFixture) -> None:
    task, state = stopped(BrokerUnavailable("broker 1 is away"))
    assert (task.closed, state) == (True, State.UNASSIGNED)
    assert "failed while it was stopping" in caplog.text
    assert "Traceback" in caplog.text
