"""The demo of `connect-distributed`: three workers, a mirror created by REST, and a leader that is
killed while it copies. At the end every record is compared.

Everything runs on the main thread. Resources are always closed in reverse order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from connect.clock import SYSTEM_CLOCK, Clock
from deploy.brokers import ProcessFailed
from deploy.demo.events import TOPICS
from deploy.demo.losses import Losses, compare_all
from deploy.demo.stage import BUSY_TICK_S, PREFIX, TICK_S, Child, Stage, on_two_clusters
from deploy.demo.stopping import Stop
from deploy.demo.view import View, WorkerRow
from deploy.demo.workers import COMMAND, HEARTBEAT, MIRROR, Worker, Workers, connector_configs

__all__ = ["GroupSummary", "run_group_demo"]

_WORKERS = 3
_KILL_AT = 0.1
"""The share of the backlog that is copied when the leader is killed, so that copying is under
way."""

_STEP_S = 120.0
"""Time limit of each step. The longest one waits for the session timeout of 6 s."""

_PRODUCER_STOP_S = 20.0
_WORKER_STOP_S = 40.0


@dataclass(slots=True)
class GroupSummary:
    """The results of the demo. Times are in seconds; None for steps that did not happen."""

    records: int = 0
    seconds: float = 0.0
    moved_s: float | None = None
    caught_up_s: float | None = None
    losses: Losses | None = None
    failed_stops: tuple[int, ...] = ()

    @property
    def problem(self) -> str | None:
        """Return the problem in one sentence; None if all went well."""
        if self.losses is not None and self.losses.different is not None:
            return "The copy differs from its source"
        if self.failed_stops:
            numbers = ", ".join(map(str, self.failed_stops))
            return f"{COMMAND} {numbers} did not stop cleanly"
        return None

    def lines(self) -> Iterator[str]:
        yield f"Copied {self.records:,} records in {self.seconds:.0f} s"
        if self.moved_s is not None:
            yield (
                f"All tasks ran on other workers {self.moved_s:.1f} s after kill -9 of the leader"
            )
        if self.caught_up_s is not None:
            yield f"The lag was zero again {self.caught_up_s:.1f} s after the kill"
        if self.losses is None:
            yield "The records were not compared, because the demo was stopped before the end"
        elif self.losses.different is None:
            yield (
                f"No record is lost: {self.losses.equal:,} records were compared one by one, all "
                f"equal and in order; {self.losses.repeated:,} are in the copy twice"
            )
        else:
            yield (
                f"{self.losses.equal:,} records are equal up to the first difference: "
                f"{self.losses.different}"
            )


def run_group_demo(
    view: View, stop: Stop, seconds: float | None, clock: Clock = SYSTEM_CLOCK
) -> GroupSummary:
    """Run the demo to its end or until `stop`. With `seconds`, continue until that long after the
    clusters were up. Raises the errors of `on_two_clusters`."""

    def act(stage: Stage) -> GroupSummary:
        return _GroupDemo(stage).run()

    return on_two_clusters(view, stop, seconds, clock, act, repeats=True)


class _Stopped(Exception):
    """A stop was requested. The results so far are printed."""


class _GroupDemo:
    """The steps of the demo once both clusters are up."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._view = stage.view
        self._workers = Workers([])
        self._leader: Worker | None = None
        self._placed: dict[str, str] = {}
        self._state = "starting"
        self._told = GroupSummary()

    def run(self) -> GroupSummary:
        stage = self._stage
        stage.create_topics()
        stage.produce_backlog()
        with contextlib.ExitStack() as stack:
            for number in range(1, _WORKERS + 1):
                worker = Worker(number, stage.servers[1], stage.directory)
                stack.callback(worker.close)
                self._workers.all.append(worker)
            producer = stage.start_producer("steady")
            stack.enter_context(producer.process)
            try:
                self._start_workers()
                self._play(producer)
                self._finish(producer)
            except _Stopped:
                self._view.say("Stopping")
            self._stop_workers()
        self._told.seconds = stage.elapsed_s
        return self._told

    # Steps of the demo.

    def _start_workers(self) -> None:
        for worker in self._workers.all:
            self._view.say(f"Starting: {COMMAND} {worker.properties}")
            worker.start()
        self._until(self._workers.ready, "the workers have joined their group")
        self._view.say(
            f"All {_WORKERS} workers have joined their group; REST is at {self._workers.all[0].url}"
        )

    def _create(self, name: str) -> None:
        config = connector_configs(*self._stage.servers)[name]
        self._until(lambda: self._workers.create(name, config), f"connector {name} is created")
        kind = config["connector.class"].rpartition(".")[2]
        self._view.say(f"POST /connectors: {name}, a {kind}, tasks.max {config['tasks.max']}")

    def _play(self, producer: Child) -> None:
        stage = self._stage
        self._state = "copying"
        # Start them one after the other, so that every worker gets a task of the mirror.
        self._create(MIRROR)
        self._look_until(producer, lambda: self._all_placed(MIRROR), "the mirror has its tasks")
        self._create(HEARTBEAT)
        self._look_until(producer, self._copying, "copying starts")
        leader = self._kill_leader()
        killed_at = stage.elapsed_s
        self._look_until(producer, self._all_placed, "all tasks run on other workers")
        self._told.moved_s = stage.elapsed_s - killed_at
        self._leader = self._workers.leader()
        self._view.say(
            f"{self._told.moved_s:.1f} s later all tasks run on the other two workers"
            + ("" if self._leader is None else f"; worker {self._leader.number} is the new leader")
        )
        self._state = "catching up"
        self._look_until(producer, self._caught_up, "the lag is zero again")
        self._told.caught_up_s = stage.elapsed_s - killed_at
        partitions = sum(topic.partitions for topic in TOPICS)
        self._view.say(
            f"The lag is zero again {self._told.caught_up_s:.1f} s after the kill: the newest "
            f"records of all {partitions} partitions are equal on both sides"
        )
        self._view.say(f"Restarting worker {leader.number}")
        leader.start()
        self._state = "in sync, rebalancing"
        self._look_until(
            producer, lambda: self._has_share(leader), "the restarted worker gets its share"
        )
        self._view.say(f"Worker {leader.number} has its share again")
        self._state = "in sync"
        until = stage.until
        if until is not None:
            self._look_until(producer, until.expired, "time is up", timeout_s=until.remaining())

    def _kill_leader(self) -> Worker:
        self._until(lambda: self._workers.leader() is not None, "the group has a leader")
        leader = self._workers.leader()
        if leader is None:
            raise ProcessFailed("The group lost its leader before the demo killed it")
        had = sum(place == leader.worker_id for place in self._placed.values())
        self._view.say(
            f"kill -9 {leader.pid}: worker {leader.number}, the leader, which runs {had} of "
            f"{len(self._placed)} connectors and tasks and is copying"
        )
        leader.kill()
        self._state = "the leader is dead"
        return leader

    def _copying(self) -> bool:
        done, total = self._stage.backlog_copied()
        return done >= total * _KILL_AT and self._all_placed()

    def _all_placed(self, *connectors: str) -> bool:
        self._stage.backlog_copied()
        return self._workers.complete(self._placed, connectors or (MIRROR, HEARTBEAT))

    def _caught_up(self) -> bool:
        """Whether the lag that the tasks report is zero and the newest records are in the copy."""
        self._stage.backlog_copied()
        reported = self._stage.progress.latest.reported_lag
        known = all(key in reported for topic in TOPICS for key in topic.partition_keys)
        return known and self._stage.all_arrived()

    def _has_share(self, worker: Worker) -> bool:
        return self._all_placed() and worker.worker_id in self._placed.values()

    def _finish(self, producer: Child) -> None:
        self._state = "ending"
        self._view.say("Stopping: the producer stops, then the last records are copied")
        producer.process.stop(_PRODUCER_STOP_S)
        producer.check()
        self._look_until(producer, self._caught_up, "the last records are copied")
        self._stop_workers()
        self._view.say("Comparing every record of both clusters")
        self._told.losses = compare_all(TOPICS, *self._stage.servers, PREFIX, self._comparing)

    def _comparing(self, done: int, total: int) -> None:
        self._check_stop()
        self._view.bar("Comparing", done, total, "partitions")

    def _stop_workers(self) -> None:
        running = self._workers.running
        for worker in running:
            worker.request_stop()
        failed = [worker.number for worker in running if worker.wait(_WORKER_STOP_S)]
        if self._told.caught_up_s is not None:
            # A worker that is stopped during its start does not handle signals yet.
            self._told.failed_stops += tuple(failed)

    # Observation.

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        self._stage.wait_until(self._check, condition, what, _STEP_S)

    def _look_until(
        self,
        producer: Child,
        condition: Callable[[], bool],
        what: str,
        timeout_s: float = _STEP_S,
    ) -> None:
        """Show the progress until the condition holds."""
        tick_s = BUSY_TICK_S if self._leader is None else TICK_S
        look = partial(self._look, producer)
        self._stage.wait_until(look, condition, what, timeout_s + TICK_S, tick_s)

    def _check(self) -> None:
        self._check_stop()
        self._workers.check()

    def _look(self, producer: Child) -> None:
        self._check()
        producer.check()
        self._placed = self._workers.placed()
        self._stage.observe(self._workers.reported_lag())
        self._told.records = self._stage.progress.copied_records()
        self._view.workers([self._row(worker) for worker in self._workers.all])
        self._stage.show(self._state)

    def _row(self, worker: Worker) -> WorkerRow:
        runs = sorted(what for what, place in self._placed.items() if place == worker.worker_id)
        if not worker.running:
            return WorkerRow(worker.number, worker.url, None, "killed", ())
        state = "leader" if worker is self._leader else "running"
        return WorkerRow(worker.number, worker.url, worker.pid, state, tuple(runs))

    def _check_stop(self) -> None:
        if self._stage.stop.event.is_set():
            raise _Stopped
