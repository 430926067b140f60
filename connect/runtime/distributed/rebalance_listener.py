"""The herder's work before, during and after a rebalance of its group.

It stops revoked connectors and tasks and starts newly assigned ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from connect.clock import Clock, Deadline
from connect.protocol.membership import Assignment
from connect.runtime.distributed.group_metrics import GroupMetrics
from connect.runtime.distributed.rebalance_plan import Absence, AfterRebalance, NextStep
from connect.runtime.states import InstanceId
from connect.storage.config_state import ClusterConfigState
from connect.storage.status_store import StatusStore

if TYPE_CHECKING:
    from connect.runtime.distributed.herder_thread import HerderLoop

__all__ = ["Rebalancing"]

_log = logging.getLogger(__name__)

# A revocation waits this long for statuses to be written, well within rebalance.timeout.ms.
_STATUS_FLUSH_S = 5.0


class Rebalancing:
    """Handles rebalances on the herder's thread; only `why_outside` and `why_unassigned` are
    thread-safe."""

    def __init__(
        self,
        loop: HerderLoop,
        statuses: StatusStore,
        group_id: str,
        metrics: GroupMetrics,
        on_leading: Callable[[], None],
        clock: Clock,
        *,
        max_delay_ms: int,
        stop_s: float,
    ) -> None:
        """Create it. `stop_s`: how long stopping work may take."""
        self._loop = loop
        self._statuses = statuses
        self._group_id = group_id
        self._metrics = metrics
        self._on_leading = on_leading
        self._clock = clock
        self.assigned_connectors: frozenset[str] = frozenset()
        """The connectors that the group has assigned to any worker."""
        self._led = False
        self._frozen_in: int | None = None
        self._resolved = self._told = True
        self._scheduled_ms: int | None = None
        self._absence = Absence(max_delay_ms)
        self._stop_s = stop_s

    def why_outside(self) -> str | None:
        """Return why the worker is not in its group; None if it is."""
        if self._loop.membership.assignment is not None:
            return None
        joining = f"This worker is joining its group {self._group_id}"
        trouble = self._loop.member.trouble
        return joining if trouble is None else f"{joining}: {trouble}"

    def why_unassigned(self, instance: InstanceId) -> str | None:
        """Return the reason as `HerderLoop.why_unassigned` does."""
        outside = self.why_outside()
        if outside is not None:
            return outside
        if not self._loop.membership.is_abandoned(instance):
            return None
        due = self._scheduled_ms
        if due is None:
            return "The leader is about to assign it to a worker"
        wait_s = max(0.0, (due - self._clock.now_ms()) / 1000)
        return (
            "The worker that ran it has left the group. If that worker does not return, another"
            f" one takes over in {wait_s:.0f} s (scheduled.rebalance.max.delay.ms)"
        )

    def until_scheduled_s(self) -> float | None:
        """Return the seconds until a delayed rebalance is due or is checked again."""
        if self._scheduled_ms is None:
            return None
        self._resolved = False
        return (self._scheduled_ms - self._clock.now_ms()) / 1000

    # Methods of `membership.Rebalances`.

    def before_join(self) -> ClusterConfigState:
        self._loop.follow_joining()
        return self._loop.configs.current

    def on_revoked(self, revoked: frozenset[InstanceId]) -> None:
        loop = self._loop
        with loop.stages.during("stopping revoked connectors and tasks"):
            loop.work.end_tasks([each for each in sorted(revoked) if each.is_task])
            connectors = [each.connector for each in sorted(revoked) if not each.is_task]
            loop.work.connectors.end(connectors)
            for name in connectors:
                loop.publisher.forget(name)
            for name in sorted({each.connector for each in revoked}):
                if not loop.configs.current.contains(name):
                    self._statuses.delete_topics(name)
            # A late status of this worker would replace the next owner's.
            self._statuses.flush(Deadline(_STATUS_FLUSH_S, self._clock))

    def on_lost(self, lost: frozenset[InstanceId], generation: int) -> None:
        # Work frozen by an earlier loss continues only if it stayed ours in between.
        self._thaw(lost)
        tasks = [each for each in lost if each.is_task]
        still = self._loop.work.freeze(
            task for task in tasks if not self._loop.writes_exactly_once(task.connector)
        )
        self._frozen_in = generation
        self.on_revoked(lost - still)

    def on_assigned(self, assignment: Assignment, generation: int) -> None:
        self._absence.end()
        self._resolved = self._told = False
        delay = assignment.delay_ms
        self._scheduled_ms = self._clock.now_ms() + delay if delay > 0 else None
        self._metrics.rebalance_started()
        if not self._loop.membership.is_leader:
            return
        self._loop.leading.claim()
        if not assignment.failed:
            # The other members know connectors that this worker has not read yet.
            self._loop.leading.forget_deleted()

    # Called by the herder.

    def before_leaving(self, busy_s: float) -> None:
        """Stop the work before leaving the group, so that it stores its offsets, if others may get
        it within `busy_s` from now. This worker waits and reads for that long.
        """
        membership = self._loop.membership
        if membership.assignment is None:
            return
        scheduled = self._scheduled_ms
        self._absence.begin(
            self._clock.monotonic(),
            given_at_once=membership.eager or membership.leads_others,
            scheduled_in_s=None if scheduled is None else (scheduled - self._clock.now_ms()) / 1000,
        )
        self.stop_in_time(busy_s)

    def stop_in_time(self, busy_s: float) -> None:
        """While outside the group, stop the work if others may get it within `busy_s` from now."""
        if self._absence.is_over(self._clock.monotonic() + busy_s + self._stop_s):
            _log.warning(
                "Stopping all connectors and tasks: this worker is not in its group, which may"
                " give them to other workers"
            )
            self._absence.end()
            self._loop.membership.give_up()

    def settle(self) -> bool:
        """Return whether this worker runs its whole assignment and need not rejoin."""
        loop, membership = self._loop, self._loop.membership
        assignment = membership.assignment
        if assignment is None:
            return False
        if self._resolved:
            return True
        if self._next_step(assignment) is NextStep.REJOIN:
            loop.member.request_rejoin(
                "the assignment was made from older configs, or the scheduled rebalance is due"
            )
            return False
        self.assigned_connectors = frozenset(loop.configs.current.connectors())
        self.begin_assigned()
        loop.publisher.compare()
        self._resolved = True
        if not self._told:
            # A delayed rebalance is checked repeatedly until it is due.
            self._told = True
            self._metrics.rebalance_completed(
                membership.generation, assignment.leader_url, membership.version
            )
        led, self._led = self._led, membership.is_leader
        if self._led and not led:
            self._on_leading()
        if assignment.revoked:
            membership.forget_revocations()
            loop.member.request_rejoin(
                "revoked connectors and tasks can now be assigned to other workers"
            )
            return False
        return True

    def _next_step(self, assignment: Assignment) -> NextStep:
        loop = self._loop
        due = self._scheduled_ms is not None and self._clock.now_ms() >= self._scheduled_ms
        if due:
            self._scheduled_ms = None
        leads = loop.membership.is_leader
        state = AfterRebalance(assignment.failed, assignment.config_offset, leads, due)
        step = state.next_step(loop.configs.current.offset)
        if step is not NextStep.READ_TO_END:
            return step
        if loop.configs.refresh():
            return state.next_step(loop.configs.current.offset, read_on=True)
        loop.fall_behind()
        return NextStep.REJOIN

    def begin_assigned(self) -> None:
        """Start assigned work that is not running yet, and stop all other work."""
        loop = self._loop
        wanted = loop.membership.assigned
        self._thaw(wanted)
        running = loop.work.running
        over, new = running - wanted, sorted(filter(self._is_configured, wanted - running))
        if over:
            self.on_revoked(frozenset(over))
        loop.work.renewal.grow(loop.configs.current)
        loop.work.renewal.take_live(loop.configs.current)
        if not new:
            return
        with loop.stages.during("starting assigned connectors and tasks"):
            _log.info("Starting %s", ", ".join(str(each) for each in new))
            for each in new:
                if not each.is_task:
                    loop.work.connectors.begin(each.connector, loop.configs.current)
            loop.work.begin_tasks([each for each in new if each.is_task], loop.configs.current)

    def _is_configured(self, instance: InstanceId) -> bool:
        """Return whether the instance still exists: a new leader may leave removed tasks
        assigned.
        """
        configs = self._loop.configs.current
        if not instance.is_task:
            return configs.contains(instance.connector)
        return instance.task < configs.task_count(instance.connector)

    def of_this_worker(self) -> list[InstanceId]:
        """Return all instances that were started here, are assigned here, and are configured."""
        loop = self._loop
        held = loop.work.running & loop.membership.assigned
        return sorted(filter(self._is_configured, held))

    def _thaw(self, wanted: frozenset[InstanceId]) -> None:
        """Continue frozen work that is assigned to this worker again.

        In the generation directly after the loss no other worker can have run it.
        """
        frozen_in, self._frozen_in = self._frozen_in, None
        if frozen_in is not None:
            ours = self._loop.membership.generation == frozen_in + 1
            self._loop.work.thaw(wanted if ours else frozenset())
