"""The herder's work as the group's leader.

The leader writes to the config topic, renews the session key, and deletes statuses of removed
connectors and tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from connect.clock import Clock, Deadline
from connect.errors import ConnectError, RetriableError
from connect.runtime.distributed.config_changes import PendingChanges
from connect.runtime.distributed.membership import Membership
from connect.runtime.distributed.session_keys import SessionKeys
from connect.runtime.stages import Stages
from connect.runtime.states import InstanceId, State, TargetState
from connect.storage.config_state import ClusterConfigState
from connect.storage.config_store import (
    ConfigStore,
    PrivilegedWriteFailed,
    WritePrivilegesMissing,
)
from connect.storage.status_records import InstanceStatus
from connect.storage.status_store import StatusStore

__all__ = ["Leading"]

_log = logging.getLogger(__name__)

_CLAIM_S = 15.0
_WRITE_FAILED = (
    "Failed to write to config topic; this may be due to a transient error and the request can be"
    " safely retried"
)


class Leading:
    """The leader's work, on the herder's thread."""

    def __init__(
        self,
        membership: Membership,
        changes: PendingChanges,
        keys: SessionKeys,
        store: ConfigStore,
        statuses: StatusStore,
        stages: Stages,
        clock: Clock,
        *,
        worker_id: str,
    ) -> None:
        self._membership = membership
        self._changes = changes
        self._keys = keys
        self._store = store
        self._statuses = statuses
        self._stages = stages
        self._clock = clock
        self._worker_id = worker_id
        self._fenced = False
        self._cleared: ClusterConfigState | None = None
        self.trouble: str | None = None
        """Why this worker leads but cannot write; None if it can or need not write."""

    def claim(self) -> None:
        """Claim exclusive write access to the config topic, if possible now."""
        if not self._claimed():
            self._fenced = True

    def claim_again(self) -> bool:
        """Claim write access again after another worker wrote as the leader.

        Return False if that is not possible yet.
        """
        if self._fenced and self._membership.is_leader and not self._claimed():
            return False
        self._fenced = False
        self.trouble = None
        return True

    def _claimed(self) -> bool:
        try:
            self._store.claim_write_privileges(Deadline(_CLAIM_S, self._clock))
        except ConnectError as error:
            reason = f"Cannot write to the config topic as the leader yet: {error}"
            if reason != self.trouble:
                _log.warning("%s", reason)
            self.trouble = reason
            return False
        self.trouble = None
        return True

    def write(self, write: Callable[[], None]) -> None:
        """Run a leader-only write to the config topic. Raises `ConnectError`."""
        try:
            write()
        except (PrivilegedWriteFailed, WritePrivilegesMissing) as error:
            self._fenced = True
            raise RetriableError(f"{_WRITE_FAILED}: {error}") from error

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write a connector's task configs and their commit. Raises `ConnectError`."""
        with self._stages.during(f"writing task configs of connector {connector}"):
            self.write(lambda: self._store.put_task_configs(connector, configs))

    def remove_tasks_of_stopped(self) -> None:
        """Remove the tasks that a stopped connector has. If that fails, the next call tries again.

        The leader removes a connector's tasks before it writes the target state STOPPED. A leader
        that was replaced in between writes the latter when its successor has committed tasks again.
        """
        configs = self._store.snapshot()
        if configs is self._cleared or not self._membership.is_leader:
            return
        for name in configs.connectors():
            tasks = configs.task_count(name)
            if not tasks or configs.target_state(name) is not TargetState.STOPPED:
                continue
            _log.info("Connector %s is stopped; removing its %d tasks", name, tasks)
            try:
                self.put_task_configs(name, [])
            except ConnectError as error:
                _log.warning("Cannot remove the tasks of stopped connector %s: %s", name, error)
                return
        self._cleared = configs

    def record_task_count(self, connector: str, tasks: int) -> None:
        """Write the number of tasks that were fenced. Raises `ConnectError`."""
        self.write(lambda: self._store.put_task_count_record(connector, tasks))

    def renew_key(self) -> None:
        """Write a new session key if one is due. Raises `ConnectError`."""
        key, now = self._changes.session_key, self._clock.now_ms()
        if not self._gives_keys or not self._keys.renewal_due(key, now):
            return
        with self._stages.during("distributing a new session key"):
            new = self._keys.new_key(now)
            self.write(lambda: self._store.put_session_key(new))

    def until_renewal_s(self) -> float | None:
        """Return the seconds until the session key must be renewed, or None if that is not our
        job.
        """
        key = self._changes.session_key
        if not self._gives_keys or key is None:
            return None
        expires = self._keys.expires_ms(key)
        return None if expires is None else (expires - self._clock.now_ms()) / 1000

    @property
    def _gives_keys(self) -> bool:
        return self._membership.is_leader and self._membership.signs

    def forget_deleted(self) -> None:
        """Delete the statuses of connectors and tasks that no longer exist."""
        configs = self._store.snapshot()
        for name in sorted(self._statuses.connectors()):
            left = {task.task for task in configs.tasks(name)}
            for number in self._statuses.get_all(name):
                if number not in left:
                    self._destroy(InstanceId(name, number))
            if not configs.contains(name):
                self._destroy(InstanceId(name))

    def _destroy(self, instance: InstanceId) -> None:
        generation = self._membership.generation
        status = InstanceStatus(State.DESTROYED, self._worker_id, generation)
        self._statuses.put(instance, status)
