"""A task with its own offset store, which is opened before the task starts and closed last."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.plugin import PartitionHealth
from connect.runtime.tasks.task import WorkerTask
from connect.storage.offset_store import READ_S, OffsetStore

__all__ = ["TaskWithOwnOffsets"]

_CLOSE_S = 1.0


class TaskWithOwnOffsets(WorkerTask):
    """Wraps `task` and the store that it uses."""

    def __init__(self, task: WorkerTask, store: OffsetStore, clock: Clock = SYSTEM_CLOCK) -> None:
        self._task = task
        self._store = store
        self._clock = clock

    def start(self) -> None:
        self._store.start(Deadline(READ_S, self._clock))
        self._task.start()

    def turn(self) -> None:
        self._task.turn()

    def descriptor(self) -> int | None:
        return self._task.descriptor()

    def turn_now(self) -> float:
        return self._task.turn_now()

    def pause(self) -> None:
        self._task.pause()

    def resume(self) -> None:
        self._task.resume()

    def commit_soon(self) -> Future[None]:
        return self._task.commit_soon()

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        return self._task.reconfigure(config)

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        return self._task.finish(deadline, failed=failed)

    def close(self) -> None:
        try:
            self._task.close()
        finally:
            self._store.stop(Deadline(_CLOSE_S, self._clock))

    def wake(self) -> None:
        self._task.wake()

    def stopping(self) -> None:
        self._task.stopping()

    def trouble(self) -> str | None:
        return self._task.trouble()

    def health(self) -> list[PartitionHealth]:
        return self._task.health()
