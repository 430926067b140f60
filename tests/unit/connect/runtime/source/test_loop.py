"""What record tasks have in common, without brokers: stopping early, and what does not go on."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import cast

from connect.clock import Deadline
from connect.data.transforms.chain import TransformChain
from connect.errors import BrokerUnavailable
from connect.metrics.task_metrics import TaskMetrics
from connect.plugin import SourceRecord, SourceTask
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import ErrorHandling, RecordErrors
from connect.runtime.source.loop import RecordTaskParts, SourceLoop
from connect.runtime.source.producer import OutgoingRecord
from connect.runtime.tasks.record_converters import RecordConverters
from connect.runtime.tasks.task import WorkerTaskContext
from tests.support.fake_clock import FakeClock

TIMEOUT_S = 10.0


class SlowTask(SourceTask):
    """Has what it stops with only once it has started."""

    def __init__(self) -> None:
        self.entered, self.may_go_on = threading.Event(), threading.Event()
        self.says: str | None = None
        self.fails: BrokerUnavailable | None = None

    def start(self, config: Mapping[str, str]) -> None:
        self.entered.set()
        assert self.may_go_on.wait(TIMEOUT_S)
        self.told = threading.Event()

    def poll(self) -> Sequence[SourceRecord] | None:
        if self.fails is not None:
            raise self.fails
        return None

    def trouble(self) -> str | None:
        return self.says

    def stopping(self) -> None:
        self.told.set()

    def stop(self) -> None:
        pass


class Loop(SourceLoop):
    """Nothing is produced."""

    def __init__(self, task: SourceTask) -> None:
        clock = FakeClock()
        figures = TaskMetrics("c", 0)
        errors: RecordErrors[SourceRecord] = RecordErrors(
            ErrorHandling.from_config({}), ErrorMetrics(clock), str, clock=clock
        )
        context = SimpleNamespace(connector_name="c", task_index=0, figures=figures)
        parts = RecordTaskParts(
            task,
            cast("WorkerTaskContext", context),
            {},
            cast("RecordConverters", SimpleNamespace()),
            TransformChain(),
            errors,
            None,
            clock,
        )
        super().__init__(parts, transactions=False)

    def start(self) -> None:
        self._begin()

    def turn(self) -> None:
        self._poll()

    def commit_soon(self) -> Future[None]:
        raise NotImplementedError

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        return True

    def close(self) -> None:
        self._close_loop()

    def _produce(self, record: SourceRecord, outgoing: OutgoingRecord) -> None:
        raise NotImplementedError

    def _leave_out(self, record: SourceRecord) -> None:
        raise NotImplementedError

    def _idle_s(self) -> float:
        return 0.0

    def _wait(self, seconds: float) -> None:
        """Time passes at once."""


def test_a_task_is_told_to_stop_only_once_it_has_started() -> None:
    task = SlowTask()
    loop = Loop(task)
    loop.stopping()
    starting = threading.Thread(target=loop.start)
    starting.start()
    assert task.entered.wait(TIMEOUT_S)
    loop.stopping()
    task.may_go_on.set()
    starting.join(TIMEOUT_S)
    loop.stopping()
    assert task.told.is_set()


def test_what_a_task_cannot_do_and_what_its_loop_waits_for_are_told_together() -> None:
    task = SlowTask()
    task.may_go_on.set()
    loop = Loop(task)
    loop.start()
    loop.turn()
    assert loop.trouble() is None
    task.says, task.fails = "its database is slow", BrokerUnavailable("nobody answers")
    loop.turn()
    assert loop.trouble() == (
        "its database is slow\npoll failed and will be retried: nobody answers"
    )
    task.says = task.fails = None
    loop.turn()
    assert loop.trouble() is None
