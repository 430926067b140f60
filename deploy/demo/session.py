"""The demo of `connect-mirror-maker`: backlog, mirror, live view, comparison, summary.

Everything runs on the main thread. Resources are always closed in reverse order.
"""

from __future__ import annotations

import contextlib
import signal
from functools import partial

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from deploy.brokers import ProcessFailed
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from deploy.demo.comparing import Comparison
from deploy.demo.events import TOPICS
from deploy.demo.latency import LatencyProbe
from deploy.demo.mirror import Mirror, mm2_properties
from deploy.demo.moving import MovedGroup, move_by_command, move_command, move_group
from deploy.demo.stage import BUSY_TICK_S, PREFIX, TICK_S, Child, Stage, on_two_clusters
from deploy.demo.stopping import Stop
from deploy.demo.summary import BacklogRun, Summary
from deploy.demo.view import View

__all__ = ["SYNC_CAP_S", "run_demo"]

SYNC_CAP_S = 120.0
"""How long the demo continues after its time if not everything was in sync once. Then it fails."""

_PRODUCER_STOP_S = 20.0
_MIRROR_STOP_S = 30.0
_DRAIN_S = 30.0
_TERMINATED = 128 + signal.SIGTERM


def run_demo(view: View, stop: Stop, seconds: float | None, clock: Clock = SYSTEM_CLOCK) -> Summary:
    """Run until `stop`, or for `seconds` from the moment the clusters are up (None: no end).

    Returns the result to print at the end. Raises the errors of `on_two_clusters`.
    """
    return on_two_clusters(view, stop, seconds, clock, lambda stage: _Demo(stage).run())


class _Demo:
    """The steps of the demo once both clusters are up."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._view = stage.view
        self._stop = stage.stop
        self._progress = stage.progress
        self._properties = stage.directory / "mm2.properties"
        self._backlog = BacklogRun()
        self._in_sync = False
        self._grace: Deadline | None = None

    def run(self) -> Summary:
        stage = self._stage
        stage.create_topics()
        stage.produce_backlog()
        with contextlib.ExitStack() as stack:
            producer = stage.start_producer("steady")
            stack.enter_context(producer.process)
            lease = stack.enter_context(contextlib.closing(PortLease(cache_directory() / "ports")))
            mirror = self._start_mirror(f"http://{LOOPBACK}:{lease.port}")
            stack.callback(mirror.close)
            probe = LatencyProbe(stage.servers[1], f"{PREFIX}{TOPICS[0].name}", 0)
            stack.callback(probe.close)
            self._watch(producer, mirror, probe)
            return self._finish(producer, mirror, probe)

    def _start_mirror(self, listener: str) -> Mirror:
        properties = self._properties
        properties.write_text(mm2_properties(*self._stage.servers, listener))
        self._view.say(f"Starting: connect-mirror-maker {properties}")
        self._view.say(f"Its pages: {listener}/metrics and {listener}/health")
        return Mirror(properties, self._stage.directory / "mirror.log", listener)

    # Methods for the time in which the mirror runs.

    def _watch(self, producer: Child, mirror: Mirror, probe: LatencyProbe) -> None:
        while not (self._stop.event.is_set() or self._time_is_up()):
            self._look(producer, mirror)
            if not self._in_sync and self._stage.all_arrived():
                self._note_sync()
                probe.start()
            self._stop.event.wait(TICK_S if self._backlog.complete else BUSY_TICK_S)

    def _time_is_up(self) -> bool:
        """Whether the time is over and everything was in sync once."""
        if self._stage.until is None or not self._stage.until.expired():
            return False
        if self._in_sync:
            return True
        if self._grace is None:
            self._grace = Deadline(SYNC_CAP_S, self._stage.clock)
        if self._grace.expired():
            raise ProcessFailed(
                f"Not all partitions were in sync {SYNC_CAP_S:g} s after the end of the demo's time"
            )
        return False

    def _look(self, producer: Child, mirror: Mirror) -> None:
        producer.check()
        mirror.check()
        # Do not query the mirror before the backlog is copied, because the measurement would
        # include the queries.
        reported = mirror.reported_lag() if self._backlog.complete else {}
        self._stage.observe(reported)
        self._note_backlog(mirror)
        self._show()

    def _show(self) -> None:
        state = "in sync" if self._in_sync else "catching up"
        self._stage.show(state, "" if self._stage.until is not None else "; Ctrl-C ends the demo")

    def _note_backlog(self, mirror: Mirror) -> None:
        """Measure the copying of the backlog, for the topics whose offsets show how much is
        left."""
        run, latest = self._backlog, self._progress.latest
        if run.complete:
            return
        copied = self._progress.copied_records()
        if copied and run.began_at is None:
            run.began_at = latest.at
            run.records_before = copied
            run.bytes_before = self._progress.copied_bytes()
            run.cost_before = mirror.cost()
        done, total = self._stage.backlog_copied()
        if done == total:
            run.ended_at = latest.at
            run.records_after = copied
            run.bytes_after = self._progress.copied_bytes()
            run.cost_after = mirror.cost()

    def _note_sync(self) -> None:
        self._in_sync = True
        partitions = sum(topic.partitions for topic in TOPICS)
        self._view.say(
            f"All partitions are in sync {self._stage.elapsed_s:.1f} s after the clusters were "
            f"up: the newest records of all {partitions} are equal on both sides"
        )

    # Methods for the end.

    def _finish(self, producer: Child, mirror: Mirror, probe: LatencyProbe) -> Summary:
        self._view.say(
            "Stopping: the producer stops, then the last records are copied and compared"
        )
        seconds = self._stage.elapsed_s
        producer.check()
        producer.process.stop(_PRODUCER_STOP_S)
        comparison = self._drain_and_compare(mirror) if self._in_sync else None
        moved = None if comparison is None else self._move_group()
        probe.close()
        cost = mirror.cost()
        status = mirror.stop(_MIRROR_STOP_S)
        if status == _TERMINATED and not self._in_sync:
            status = 0  # It was stopped so early that it did not handle signals yet.
        return Summary(
            self._progress.copied_records() if self._progress.observed else 0,
            self._progress.copied_bytes() if self._progress.observed else 0.0,
            seconds,
            self._progress.peak_bytes_per_s,
            self._backlog,
            cost,
            probe.milliseconds,
            comparison,
            status,
            moved,
        )

    def _move_group(self) -> MovedGroup:
        self._view.say(f"Moving a consumer group: {' '.join(move_command(self._properties))}")
        move = partial(move_by_command, self._properties)
        return move_group(*self._stage.servers, PREFIX, move)

    def _drain_and_compare(self, mirror: Mirror) -> Comparison:
        deadline = Deadline(_DRAIN_S, self._stage.clock)
        while True:
            mirror.check()
            self._stage.observe(mirror.reported_lag())
            self._show()
            if self._stage.drained():
                return self._stage.checker.compare(self._progress.latest.ends)
            deadline.check("Copying the last records")
            self._stop.event.wait(BUSY_TICK_S)
