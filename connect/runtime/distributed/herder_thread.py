"""The herder's thread: it stays in the group, runs assigned work, serves requests and applies
configs.

One turn reads the configs if they are behind, joins the group, starts or stops work after a
rebalance, serves requests of REST and tasks, applies changes of the config topic, and polls the
group until something happens. No other thread changes the running work or writes as the leader.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from connect.clients.groups.member import GroupMember
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.log_fields import OwnedThread
from connect.runtime.distributed.config_changes import ChangeSet, PendingChanges
from connect.runtime.distributed.config_follower import ConfigFollower
from connect.runtime.distributed.exactly_once_checks import ExactlyOnceRuns
from connect.runtime.distributed.group_config import DistributedConfig, ExactlyOnceSupport
from connect.runtime.distributed.group_configs import GroupConfigs
from connect.runtime.distributed.group_metrics import GroupMetrics
from connect.runtime.distributed.leader_client import InternalRequests
from connect.runtime.distributed.leadership import Leading
from connect.runtime.distributed.membership import Membership
from connect.runtime.distributed.rebalance_listener import Rebalancing
from connect.runtime.distributed.rebalance_plan import UnsyncBackoff
from connect.runtime.distributed.session_keys import SessionKeys
from connect.runtime.distributed.task_config_commits import GroupCommits
from connect.runtime.distributed.zombie_fencing import ZombieFencing
from connect.runtime.restart_plan import RestartPlan
from connect.runtime.stages import Stages
from connect.runtime.states import InstanceId
from connect.runtime.thread_dumps import where
from connect.runtime.work.request_queue import RequestQueue
from connect.runtime.work.running_work import RunningWork
from connect.runtime.work.task_config_publisher import TaskConfigPublisher
from connect.runtime.work.task_run import TaskRun
from connect.runtime.worker import Worker
from connect.storage.config_records import RestartRequest
from connect.storage.config_store import ConfigStore
from connect.storage.status_store import StatusStore

__all__ = ["HerderLoop"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

# The longest wait of one turn for a join or an event.
_JOIN_S = 5.0
_IDLE_S = 60.0
_RECLAIM_PAUSE_S = 0.25
_SHORTEST_UNSYNC_S = 0.1
# Kept back from a stop's time for closing, and the part of it for the last statuses.
_CLOSE_S = 3.0
_FLUSH_S = 1.5


class HerderLoop:
    """Owns the thread, the group member, the running work and the requests to leaders.

    `start` and `stop` are for its owner, and `run`, `post`, `ready` and `failure` for any thread.
    Everything else is for the herder's thread.
    """

    def __init__(
        self,
        config: DistributedConfig,
        worker: Worker,
        store: ConfigStore,
        statuses: StatusStore,
        make_member: Callable[[Membership], GroupMember],
        url: str,
        requests_to_leader: Callable[[PendingChanges], InternalRequests],
        plan_restart: Callable[[RestartRequest], RestartPlan],
        set_level: Callable[[str, str], object],
        *,
        metrics: GroupMetrics,
        on_leading: Callable[[], None] = lambda: None,
        publishes_itself: bool = False,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        """Create the loop.

        `url` is this worker's. `on_leading` is called on the herder's thread when this worker has
        become the leader and runs its assignment; it must not block. With `publishes_itself` this
        worker commits its connectors' task configs even if it does not lead. `wait` waits for an
        event with a timeout; a simulation passes one that advances virtual time.
        """
        self._config = config
        self._wait = wait
        self._worker = worker
        self._clock = worker.clock
        self._store = store
        self._statuses = statuses
        self.stages = Stages(self._clock)
        self.configs = GroupConfigs(store, self.stages, config.sync_timeout_s, self._clock)
        self._rebalancing = Rebalancing(
            self,
            statuses,
            config.group_id,
            metrics,
            on_leading,
            self._clock,
            max_delay_ms=config.max_delay_ms,
            stop_s=worker.config.task_shutdown_graceful_timeout_s,
        )
        self.membership = Membership(
            url,
            config.connect_protocol,
            config.max_delay_ms,
            store,
            self._rebalancing,
            lambda: self.member.generation,
            self._clock,
        )
        self.member: GroupMember = make_member(self.membership)
        self.requests = RequestQueue(self.member.wakeup, self._clock)
        self.changes = PendingChanges(
            # Assigned connectors, not all that were read: one that was read but not reported yet
            # must still be reported as new.
            lambda name: name in self._rebalancing.assigned_connectors,
            self.member.wakeup,
            set_level,
        )
        self.leading = Leading(
            self.membership,
            self.changes,
            SessionKeys(config),
            store,
            statuses,
            self.stages,
            self._clock,
            worker_id=worker.worker_id,
        )
        self.leader_requests = requests_to_leader(self.changes)
        self.work: RunningWork = RunningWork(
            worker,
            self.post,
            lambda: self.configs.current,
            lambda name: self.publisher.wanted(name),
            lambda name: self.work.connectors.restart(name, self.configs.current, shown=False),
            self._begin_run,
        )
        self.fencing = ZombieFencing(
            self.configs,
            self.leading.record_task_count,
            self.post,
            worker.fence_zombies,
            worker.resolved,
            self._is_source,
        )
        self._runs = ExactlyOnceRuns(
            config.group_id,
            self.configs,
            self.membership,
            self.requests,
            self.fencing,
            self.leader_requests,
            self._clock,
        )
        self.commits = GroupCommits(
            self.configs,
            self.membership,
            self.leading,
            self.leader_requests,
            publishes_itself=publishes_itself,
        )
        self.publisher: TaskConfigPublisher = TaskConfigPublisher(
            worker, self.work.connectors, self.commits, self.post, self._clock
        )
        self._follower = ConfigFollower(
            self.configs,
            self.membership,
            self.work,
            self.stages,
            plan_restart,
            self.writes_exactly_once,
        )
        self._unsync = UnsyncBackoff(config.unsync_backoff_s, config.max_delay_ms)
        self._can_read = True
        self._stopping = threading.Event()
        self._stop_deadline: Deadline | None = None
        self._ended_well = True
        self.ready = threading.Event()
        """Set when the worker has joined its group for the first time, or has ended."""
        self.failure: Exception | None = None
        """The error that ended the thread."""
        self._thread = OwnedThread(self._main, "distributed-herder")

    def start(self) -> None:
        """Start the thread. The stores must be started."""
        self.begin()
        self._thread.start()

    def begin(self) -> None:
        """Take over what the stores have read. A simulation without a thread calls `turn`
        afterwards.
        """
        self.configs.adopt()
        self.changes.begin_with(self.configs.current.session_key)

    def stop(self, deadline: Deadline) -> bool:
        """Stop all work and leave the group. Return False if something did not end in time."""
        self._stop_deadline = deadline
        self._stopping.set()
        self.member.wakeup()
        if self._thread.ident is None:
            self._close(deadline)
            return True
        self._thread.join(deadline.remaining())
        if not self._thread.is_alive():
            return self._ended_well
        _log.error(
            "The herder thread did not stop in time and is abandoned; nothing has to "
            "be done, it ends with the process. Its stack:\n%s\n%s",
            where(self._thread),
            self.stages.summary() or "",
        )
        return False

    def run(self, request: Callable[[], T], timeout_s: float) -> T:
        """Run a request in a turn of the herder. Return its result or raise its error.

        Raises `DeadlineExceeded`; a request that has not started by then is dropped.
        """

        return self.requests.run(request, timeout_s, self._why_late)

    def _why_late(self) -> str:
        """Return Java's sentence about what the worker does, and what keeps it from serving."""
        stage = self.stages.summary()
        found = "Request timed out" if stage is None else f"Request timed out. {stage}"
        for reason in (self.leading.trouble, self.why_outside()):
            if reason is not None and reason not in found:
                found = f"{found.removesuffix('.')}. {reason}"
        return found

    def post(self, delay_s: float, command: Callable[[], None]) -> None:
        """Run a command in a turn of the herder after a delay. Its errors are logged."""
        self.requests.post(delay_s, command)

    def why_outside(self) -> str | None:
        """Return why the worker is not in its group; None if it is. Thread-safe."""
        return self._rebalancing.why_outside()

    def why_unassigned(self, instance: InstanceId) -> str | None:
        """Return why no worker runs this instance, or None if one does or the reason is unknown.

        Thread-safe.
        """
        return self._rebalancing.why_unassigned(instance)

    def show_again(self, deleted: InstanceId) -> None:
        """Write a status again after it was deleted while its instance is running. Thread-safe.

        Deleting a connector's status deletes those of its tasks. A deletion may arrive late, or
        twice after a lost acknowledgement, and then hides a status written since.
        """

        def tell() -> None:
            for each in self._rebalancing.of_this_worker():
                ended = each == deleted or InstanceId(each.connector) == deleted
                if ended and self._statuses.get(each) is None:
                    _log.info(
                        "The status of %s was deleted while it is running; writing the"
                        " status again",
                        each,
                    )
                    self._worker.statuses.tell_again(each)

        # Runs on the herder's thread, after this worker has read the configs of its current
        # assignment. These show whether the deletion was right.
        self.post(0.0, tell)

    # The herder's thread.

    def _main(self) -> None:
        try:
            while not self._stopping.is_set():
                self.turn()
        except ConnectError as error:
            # The owner reports it: `check` raises it.
            _log.debug("Stopping the worker: %s", error, exc_info=error)
            self.failure = error
        except Exception as error:  # noqa: BLE001 - the top of the herder's thread
            _log.exception(
                "Stopping the worker because the herder failed; this is a defect: report "
                "it with the trace"
            )
            self.failure = error
        finally:
            deadline = self._stop_deadline or Deadline(
                self._worker.config.task_shutdown_graceful_timeout_s + _CLOSE_S, self._clock
            )
            self._close(deadline)
            self.ready.set()

    def _close(self, deadline: Deadline) -> None:
        left = max(0.0, deadline.remaining() - _CLOSE_S)
        self._ended_well = self.work.end_all(Deadline(left, self._clock))
        self.fencing.close()
        self.requests.close(ConnectError("Worker is shutting down"))
        self.leader_requests.close()
        self._statuses.flush(Deadline(min(_FLUSH_S, deadline.remaining()), self._clock))
        self.member.close(deadline=deadline)

    def turn(self) -> None:
        """Run one turn. Returns when the group member's poll returns."""
        if not self._can_read and not self._catch_up():
            return
        self._rebalancing.stop_in_time(_JOIN_S)
        with self.stages.during("ensuring membership in the cluster"):
            if not self.member.ensure_active(_JOIN_S):
                return
        if not self._rebalancing.settle():
            return
        if not self.leading.claim_again():
            with self.stages.during(f"waiting to lead. {self.leading.trouble}"):
                self._wait(self._stopping, _RECLAIM_PAUSE_S)
            return
        self._renew_key()
        self._serve()
        for request in self.changes.take_restarts():
            self._follower.restart(request)
        self._follow(self.changes.take())
        self.leading.remove_tasks_of_stopped()
        self.ready.set()
        self.member.poll(self._pause_s())
        self._rebalancing.settle()

    def _catch_up(self) -> bool:
        """Read the config topic to its end. If that fails, stay out of the group for a while."""
        if self.configs.refresh():
            self._can_read = True
            self._unsync.reset()
            return True
        self.fall_behind()
        return False

    def fall_behind(self) -> None:
        """Stay out of the group for a while because the config topic cannot be read."""
        self._can_read = False
        wait = self._unsync.next(eager=self.membership.eager)
        self._rebalancing.before_leaving((wait or 0.0) + self._config.sync_timeout_s)
        self.member.leave("taking too long to read the log")
        if wait is None:
            _log.warning(
                "Stopping all connectors and tasks until the config topic can be read "
                "again: it has been unreadable for too long"
            )
            self.membership.give_up()
        else:
            self._wait(self._stopping, max(wait, _SHORTEST_UNSYNC_S))

    def _serve(self) -> None:
        """Serve the requests that are due now.

        Requests use the current assignment; one that depends on a change waits for the next
        assignment. Requests that arrive meanwhile wait for the next turn, so that the group is
        polled in between.
        """
        now = self._clock.monotonic()
        while not self._stopping.is_set() and not self.changes.rebalance_needed:
            request = self.requests.take(now)
            if request is None:
                return
            request()

    def _pause_s(self) -> float:
        if self.changes.rebalance_needed:
            return 0.0
        waits = (
            self.requests.next_due_s(),
            self._rebalancing.until_scheduled_s(),
            self.leading.until_renewal_s(),
        )
        return max(0.0, min([_IDLE_S, *(wait for wait in waits if wait is not None)]))

    def _renew_key(self) -> None:
        try:
            self.leading.renew_key()
        except ConnectError as error:
            _log.warning("Cannot write a new session key: %s", error)
            self._can_read = False

    # Changes of the config topic.

    def follow_joining(self) -> None:
        """Apply all config changes so far, during a rebalance."""
        self._follow(self.changes.take(), joining=True)

    def _follow(self, changes: ChangeSet, *, joining: bool = False) -> None:
        """Apply changes. `joining`: the rebalance in progress takes them into account."""
        if changes == ChangeSet() and not joining:
            return
        self.configs.adopt()
        rebalance = changes.rebalance and not self._assigned_by_now()
        if rebalance and not joining:
            self.member.request_rejoin("connectors or tasks have changed")
        if rebalance and self.membership.eager:
            # Everything is started again with the new configs.
            return
        self.fencing.give_up({task.connector for task in changes.tasks})
        self._follower.follow(changes)
        if not rebalance and not joining:
            self._rebalancing.begin_assigned()

    def _assigned_by_now(self) -> bool:
        """Return whether the current assignment includes all config changes that were read.

        A change read during a rebalance is then included, and another rebalance would only delay
        the group until the next heartbeats.
        """
        assignment = self.membership.assignment
        return assignment is not None and self.configs.current.offset <= assignment.config_offset

    def _begin_run(self, instance: InstanceId) -> TaskRun | None:
        exactly_once = self.writes_exactly_once(instance.connector)
        return self._runs.begin(instance) if exactly_once else None

    def writes_exactly_once(self, connector: str) -> bool:
        """Return whether the connector's tasks write exactly once on this worker."""
        if self._config.exactly_once is not ExactlyOnceSupport.ENABLED:
            return False
        config = self.configs.current.raw_connector_config(connector)
        return config is not None and self._is_source(self._worker.resolved(config))

    def _is_source(self, config: Mapping[str, str]) -> bool:
        connector = self._worker.plugins.connector(config.get("connector.class", ""))
        return connector.connector_type() == "source"
