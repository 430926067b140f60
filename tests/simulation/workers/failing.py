"""A transfer task that fails between two records, run by the product's class."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from connect.clock import Clock, Deadline
from connect.metrics.registry import MetricRegistry
from connect.plugin import PartitionHealth, SourceOffset, StoredOffset, TransferTask
from connect.runtime.tasks.task import WorkerTaskContext
from connect.runtime.transfer.task import WorkerTransferTask
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_writer import OffsetWriter
from tests.support.workers.memory_offset_store import MemoryOffsetStore

__all__ = ["fail_a_transfer"]

_COMMIT_S = 5.0


def fail_a_transfer(connector: str, number: int, clock: Clock) -> tuple[SourceOffset | None, int]:
    """What is stored after a step has raised, which had copied up to offset 10, and how many steps
    came after that one."""
    task, store = Gapped(), MemoryOffsetStore()
    reader = OffsetReader(store, connector)
    context = WorkerTaskContext(
        connector, number, "w", MetricRegistry(), reader, {}, lambda _: None, clock
    )
    hosted = WorkerTransferTask(
        task,
        context,
        {},
        OffsetWriter(store, connector),
        commit_interval_s=60.0,
        commit_timeout_s=_COMMIT_S,
        clock=clock,
    )
    hosted.finish(Deadline(_COMMIT_S, clock), failed=True)
    return reader.offsets([{"lane": 0}], Deadline(_COMMIT_S))[0], task.steps


class Gapped(TransferTask):
    """A transfer task whose step has just failed, with records after the gap still to be copied.
    The step that failed was its last."""

    def __init__(self) -> None:
        self.acknowledged = 10
        self.steps = 0
        self._gathering: list[tuple[Future[list[StoredOffset]], int]] = []

    def start(self, config: Mapping[str, str]) -> None:
        """Nothing to open."""

    def step(self, timeout: float) -> None:
        self.steps += 1
        self.acknowledged += 10
        self.deliver()

    def wake(self) -> None:
        """No step waits."""

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        self._gathering.append((Future(), self.acknowledged))
        return self._gathering[-1][0]

    def deliver(self) -> None:
        for future, acknowledged in self._gathering:
            if not future.done():
                future.set_result([({"lane": 0}, {"offset": acknowledged})])

    def committed(self) -> None:
        """Nothing depends on it."""

    def pause(self) -> None:
        """Nothing moves."""

    def resume(self) -> None:
        """Nothing moves."""

    def drain(self, deadline: Deadline) -> None:
        """Nothing is under way."""

    def stop(self) -> None:
        """Nothing is open."""

    def health(self) -> list[PartitionHealth]:
        return []
