"""A transfer task that has failed stores what was acknowledged, and never steps again. A store of
its own is open as long as the task."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from connect.clock import Deadline
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.plugin import PartitionHealth, StoredOffset, TransferTask
from connect.runtime.tasks.task import WorkerTaskContext
from connect.runtime.transfer.task import WorkerTransferTask
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_writer import OffsetWriter
from tests.support.fake_clock import FakeClock
from tests.support.workers.memory_offset_store import MemoryOffsetStore

INTERVAL_S, TIMEOUT_S = 60.0, 5.0
LANE = {"lane": 0}


class Gapped(TransferTask):
    """Loses a record in the step that fails. A step after that copies beyond the gap."""

    def __init__(self) -> None:
        self.steps = 0
        self.acknowledged = 10
        self.gathering: list[tuple[Future[list[StoredOffset]], int]] = []

    def start(self, config: Mapping[str, str]) -> None:
        """Nothing to open."""

    def step(self, timeout: float) -> None:
        self.steps += 1
        if self.steps == 2:
            raise ConnectError("one record cannot be copied")
        if self.steps > 2:
            self.acknowledged += 100
        self.deliver()

    def wake(self) -> None:
        """No step waits."""

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        self.gathering.append((Future(), self.acknowledged))
        return self.gathering[-1][0]

    def deliver(self) -> None:
        for future, acknowledged in self.gathering:
            if not future.done():
                future.set_result([(LANE, {"offset": acknowledged})])

    def committed(self) -> None:
        """Nothing depends on it."""

    def pause(self) -> None:
        """Nothing moves anyway."""

    def resume(self) -> None:
        """Nothing moves anyway."""

    def drain(self, deadline: Deadline) -> None:
        raise AssertionError("a failed task is not drained")

    def stop(self) -> None:
        """Nothing to close."""

    def health(self) -> list[PartitionHealth]:
        return []


class Lifecycle(Gapped):
    """Notes when it starts and stops."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__()
        self._calls = calls

    def start(self, config: Mapping[str, str]) -> None:
        self._calls.append("task started")

    def stop(self) -> None:
        self._calls.append("task stopped")


class WatchedStore(MemoryOffsetStore):
    """Notes when it is opened and closed."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__()
        self._calls = calls

    def start(self, deadline: Deadline) -> None:
        self._calls.append("store opened")

    def stop(self, deadline: Deadline) -> None:
        self._calls.append("store closed")


def hosted(task: TransferTask, store: MemoryOffsetStore, clock: FakeClock) -> WorkerTransferTask:
    context = WorkerTaskContext(
        "c", 0, "w", MetricRegistry(), OffsetReader(store, "c"), {}, lambda _: None, clock
    )
    if isinstance(store, WatchedStore):
        context.own_offsets = store
    return WorkerTransferTask(
        task,
        context,
        {},
        OffsetWriter(store, "c"),
        commit_interval_s=INTERVAL_S,
        commit_timeout_s=TIMEOUT_S,
        clock=clock,
    )


def test_a_store_of_its_own_is_open_as_long_as_the_task() -> None:
    calls: list[str] = []
    task = hosted(Lifecycle(calls), WatchedStore(calls), FakeClock())
    task.start()
    task.close()
    assert calls == ["store opened", "task started", "task stopped", "store closed"]


@pytest.mark.parametrize("under_way", [False, True], ids=["idle", "a commit is under way"])
def test_a_failed_task_stores_what_was_acknowledged_without_another_step(under_way: bool) -> None:
    task, store, clock = Gapped(), MemoryOffsetStore(), FakeClock()
    failing = hosted(task, store, clock)
    failing.start()
    if under_way:
        clock.advance(INTERVAL_S)
    failing.turn()
    with pytest.raises(ConnectError):
        failing.turn()
    assert failing.finish(Deadline(TIMEOUT_S, clock), failed=True)
    assert task.steps == 2
    assert OffsetReader(store, "c").offsets([LANE], Deadline(TIMEOUT_S)) == [{"offset": 10}]
    assert len(task.gathering) == 1 + under_way
