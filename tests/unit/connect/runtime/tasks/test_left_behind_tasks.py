"""A task that does not stop in time is left behind: it stores no offsets when it ends after all."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.metrics.registry import MetricRegistry
from connect.metrics.task_metrics import TaskMetrics
from connect.metrics.worker_metrics import HostedTask, WorkerMetrics
from connect.runtime.states import InstanceId, StatusBook
from connect.runtime.tasks.host import TaskHost
from connect.runtime.tasks.task import WorkerTask

TIMEOUT_S = 10.0


class SlowStart(WorkerTask):
    """Starts when it is let, whatever it was told meanwhile."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let = threading.Event()
        self.closed = threading.Event()
        self.did: list[str] = []

    def start(self) -> None:
        self.entered.set()
        assert self.let.wait(TIMEOUT_S)

    def turn(self) -> None:
        self.did.append("turn")

    def wake(self) -> None:
        """It is deaf."""

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        return True

    def pause(self) -> None:
        """Nothing moves."""

    def resume(self) -> None:
        """Nothing moves."""

    def commit_soon(self) -> Future[None]:
        return Future()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        self.did.append("stored offsets")
        return True

    def close(self) -> None:
        self.did.append("closed")
        self.closed.set()


def test_a_task_left_behind_in_its_start_neither_works_nor_stores_offsets() -> None:
    task = SlowStart()
    worker = WorkerMetrics("w", "1", MetricRegistry(), dict, SYSTEM_CLOCK)
    host = TaskHost(
        InstanceId("c", 0),
        task,
        object,
        {},
        StatusBook("w"),
        paused=False,
        final_timeout_s=1.0,
        metrics=HostedTask(worker, TaskMetrics("c", 0, SYSTEM_CLOCK)),
    )
    host.start()
    assert task.entered.wait(TIMEOUT_S)
    host.request_stop(Deadline(0.01))
    assert not host.join(Deadline(0.01))
    task.let.set()
    assert task.closed.wait(TIMEOUT_S)
    assert task.did == ["closed"]
