"""Statuses of the worker group: write those of this worker's connectors and tasks, read all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connect.clock import Clock
from connect.runtime.distributed.membership import Membership
from connect.runtime.states import InstanceId, State, Status
from connect.storage.status_records import InstanceStatus
from connect.storage.status_store import StatusStore

__all__ = ["GroupStatuses"]

# This worker's final states of an instance. They do not replace a newer status of another worker.
_WRITTEN_SAFELY = frozenset({State.FAILED, State.UNASSIGNED})


class GroupStatuses:
    """Reads and writes statuses. Thread-safe."""

    def __init__(
        self,
        store: StatusStore,
        membership: Membership,
        why_unassigned: Callable[[InstanceId], str | None],
        clock: Clock,
        *,
        worker_id: str,
    ) -> None:
        """Set the statuses up. For `why_unassigned` see `HerderLoop`."""
        self._store = store
        self._membership = membership
        self._why_unassigned = why_unassigned
        self._clock = clock
        self._worker_id = worker_id

    def note(self, instance: InstanceId, status: Status) -> None:
        """Write the status of an instance on this worker. Must not block."""
        written = InstanceStatus(
            status.state,
            status.worker_id,
            self._membership.generation_of(instance),
            status.trace,
            status.version,
        )
        if status.state in _WRITTEN_SAFELY:
            self._store.put_safe(instance, written)
        else:
            self._store.put(instance, written)

    def get(self, instance: InstanceId) -> Status | None:
        """Return the last written status of the instance."""
        found = self._store.get(instance)
        return None if found is None else _shown(found)

    def tasks_of(self, connector: str) -> Mapping[int, Status]:
        """Return the last written statuses of the connector's tasks, by task number."""
        found = self._store.get_all(connector)
        return {number: _shown(status) for number, status in found.items()}

    def now(self, instance: InstanceId) -> Status:
        """Return the current status: UNASSIGNED if no worker runs the instance, as far as known
        here.

        The last written status is then out of date.
        """
        written = self.get(instance)
        nobody = self._why_unassigned(instance)
        if written is None or (nobody is not None and written.state is State.RUNNING):
            return Status(State.UNASSIGNED, self._worker_id, self._clock.now_ms(), nobody)
        return written


def _shown(status: InstanceStatus) -> Status:
    return Status(status.state, status.worker_id, 0, status.trace, status.version)
