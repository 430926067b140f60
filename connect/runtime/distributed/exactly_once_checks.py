"""The checks before an exactly-once task of a worker group may write (KIP-618).

Before a source task claims its transactional id, the leader fences the connector's earlier tasks.
After the claim, the task must still be one of the connector's current tasks and assigned to this
worker. Otherwise another task has replaced it, and it must not start.

Both checks need the config topic and the leader. If they are unreachable, for example after a
broker failure, the task waits, because nothing would restart a failed task.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from connect.clock import Clock, Deadline
from connect.errors import (
    ConnectError,
    DeadlineExceeded,
    Interrupted,
    RetriableError,
    TaskFailed,
)
from connect.loop import Backoff, retry
from connect.runtime.distributed.group_configs import GroupConfigs
from connect.runtime.distributed.leader_client import InternalRequests
from connect.runtime.distributed.membership import Membership
from connect.runtime.distributed.zombie_fencing import ZombieFencing
from connect.runtime.offset_stores import task_transactional_id
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.states import InstanceId
from connect.runtime.work.request_queue import RequestQueue
from connect.runtime.work.task_run import TaskRun

__all__ = ["ExactlyOnceRuns"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

# The time that Java gives the leader for zombie fencing.
_ANSWER_S = 90.0
_LOOK_S = 0.1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0

# How long retriable errors are retried. The response of Java's leader does not distinguish fatal
# errors from retriable ones, so a fatal one must become visible at some time.
_PATIENCE_S = 300.0


class ExactlyOnceRuns:
    """Creates the exactly-once start-up checks of this worker's source tasks.

    Call `begin` on the herder's thread; the checks run on the tasks' threads.
    """

    def __init__(
        self,
        group_id: str,
        configs: GroupConfigs,
        membership: Membership,
        requests: RequestQueue,
        fencing: ZombieFencing,
        leader_requests: InternalRequests,
        clock: Clock,
    ) -> None:
        self._group_id = group_id
        self._configs = configs
        self._membership = membership
        self._requests = requests
        self._fencing = fencing
        self._leader_requests = leader_requests
        self._clock = clock

    def begin(self, instance: InstanceId) -> TaskRun:
        """Return a run of the task with its current config."""
        generation = self._configs.current.task_config_generation(instance.connector)

        def plan(run: TaskRun) -> ExactlyOncePlan:
            return ExactlyOncePlan(
                task_transactional_id(self._group_id, instance),
                lambda: self._fence(instance, run),
                lambda: self._verify(instance, run),
            )

        return TaskRun(
            lambda: self._ask(instance.connector),
            lambda: self._check(instance, generation),
            plan,
        )

    def _ask(self, connector: str) -> Future[None]:
        if self._membership.is_leader:
            return self._fencing.request(connector)
        return self._leader_requests.fence_zombies(self._membership.leader_url, connector)

    def _fence(self, instance: InstanceId, run: TaskRun) -> None:
        name, cancelled = instance.connector, run.cancelled

        def fence(deadline: Deadline) -> None:
            fenced = self._wait(self._requests.submit(run.ask), deadline, cancelled)
            self._wait(fenced, deadline, cancelled)

        try:
            self._persist(instance, fence, cancelled)
        except Interrupted:
            raise
        except ConnectError as error:
            raise TaskFailed(
                f"Failed to perform zombie fencing for source connector {name} prior to starting"
                f" task {instance}: {error}"
            ) from error

    def _check(self, instance: InstanceId, generation: int | None) -> None:
        if not self._configs.refresh():
            raise RetriableError(
                f"Cannot start source task {instance} with exactly-once support: the config"
                " topic could not be read to its end"
            )
        if self._configs.current.task_config_generation(instance.connector) != generation:
            raise ConnectError(
                f"Cannot start source task {instance} with exactly-once support as the"
                " connector has already generated a new set of task configs"
            )
        if instance not in self._membership.assigned:
            raise ConnectError(
                f"Cannot start source task {instance} with exactly-once support as the task"
                " has already been revoked from this worker"
            )

    def _verify(self, instance: InstanceId, run: TaskRun) -> None:
        def verify(deadline: Deadline) -> None:
            self._wait(self._requests.submit(run.check), deadline, run.cancelled)

        self._persist(instance, verify, run.cancelled)

    def _persist(
        self,
        instance: InstanceId,
        attempt: Callable[[Deadline], None],
        cancelled: threading.Event,
    ) -> None:
        """Retry until it succeeds or fails with a fatal error."""

        def once() -> None:
            try:
                attempt(Deadline(_ANSWER_S, self._clock))
            except ConnectError as error:
                if error.retriable and not cancelled.is_set():
                    _log.warning("Task %s cannot start yet: %s", instance, error)
                raise

        patience = Deadline(_PATIENCE_S, self._clock)
        try:
            retry(once, patience, Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), cancelled.wait)
        except ConnectError as error:
            if cancelled.is_set():
                raise Interrupted(
                    "the task was stopped before the leader allowed it to start"
                ) from error
            raise

    def _wait(self, answer: Future[T], deadline: Deadline, cancelled: threading.Event) -> T:
        while True:
            try:
                return answer.result(min(_LOOK_S, deadline.remaining()))
            except FutureTimeout as error:
                if answer.done():
                    return answer.result(0)
                if cancelled.is_set():
                    raise Interrupted(
                        "the task was stopped before the leader allowed it to start"
                    ) from error
                if deadline.expired():
                    raise DeadlineExceeded("the leader did not answer in time") from error
