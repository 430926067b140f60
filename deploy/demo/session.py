"""The demo from beginning to end: clusters, backlog, mirror, live view, comparison, summary.

Everything runs on the main thread; what is started is closed in reverse order, whatever happens.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError, RetriableError
from deploy.brokers import (
    KAFKA_VERSION,
    GuardedProcess,
    KafkaCluster,
    ProcessFailed,
    kafka_runtime,
)
from deploy.brokers import (
    Progress as DownloadProgress,
)
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from deploy.brokers.process import complaints
from deploy.demo.checking import Checker, nearly_in_sync
from deploy.demo.clusters import running_clusters
from deploy.demo.comparing import Comparison, PartitionKey
from deploy.demo.events import TOPICS
from deploy.demo.latency import LatencyProbe
from deploy.demo.mirror import SOURCE, TARGET, Mirror, mm2_properties
from deploy.demo.progress import PartitionEnds, Progress, Watcher
from deploy.demo.stopping import Stop
from deploy.demo.summary import BacklogRun, Summary
from deploy.demo.view import View

__all__ = ["SYNC_CAP_S", "run_demo"]

SYNC_CAP_S = 120.0
"""How long after its time the demo goes on if not all was in sync once; then that is an error."""

_TICK_S = 0.5
_BUSY_TICK_S = 0.2
"""Between two looks; shorter while the backlog is copied, which takes only seconds."""

_BACKLOG_S = 180.0
_PRODUCER_STOP_S = 20.0
_MIRROR_STOP_S = 30.0
_DRAIN_S = 30.0
_TERMINATED = 128 + signal.SIGTERM
_CREATE_S = 30.0
_PREFIX = f"{SOURCE}."


def run_demo(view: View, stop: Stop, seconds: float | None, clock: Clock = SYSTEM_CLOCK) -> Summary:
    """Run until `stop`, or for `seconds` from the moment the clusters are up (None: no end).

    Returns what is to be told at the end. Raises `ConnectError`, whose message is for the person at
    the terminal, and `StopRequested` when the end was asked for before there was anything to tell.
    """
    with stop.interrupting():
        shown = f"Fetching Kafka {KAFKA_VERSION}"
        kafka = kafka_runtime(lambda done: _download(view, shown, done))
    with _directory(view) as directory:
        view.say(f"Starting two Kafka {KAFKA_VERSION} clusters, {SOURCE} and {TARGET}")
        with running_clusters((SOURCE, TARGET), kafka, directory, stop) as (source, target):
            view.say(f"{SOURCE} is at {source.bootstrap_servers}")
            view.say(f"{TARGET} is at {target.bootstrap_servers}")
            until = None if seconds is None else Deadline(seconds, clock)
            return _Demo(view, stop, until, directory, source, target, clock).run()


def _download(view: View, what: str, progress: DownloadProgress) -> None:
    view.bar(what, progress.bytes_done / 1e6, progress.bytes_total / 1e6, "MB")


@contextlib.contextmanager
def _directory(view: View) -> Iterator[Path]:
    """A directory for logs and the properties file; it stays when something failed."""
    directory = Path(tempfile.mkdtemp(prefix="mirror-demo-"))
    try:
        yield directory
    except ConnectError:
        view.say(f"Failed; all logs are in {directory}")
        raise
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Child:
    """A producer process: what it is called, and its process."""

    what: str
    process: GuardedProcess

    def check(self) -> None:
        """Raise `ProcessFailed` if it has ended with an error."""
        if self.process.poll():
            raise ProcessFailed(f"{self.what} failed: {complaints(self.process.log)}")


class _Demo:
    """What happens once both clusters are up."""

    def __init__(
        self,
        view: View,
        stop: Stop,
        until: Deadline | None,
        directory: Path,
        source: KafkaCluster,
        target: KafkaCluster,
        clock: Clock,
    ) -> None:
        self._view = view
        self._stop = stop
        self._until = until
        self._directory = directory
        self._servers = (source.bootstrap_servers, target.bootstrap_servers)
        self._clock = clock
        self._watcher = Watcher(TOPICS, *self._servers, _PREFIX, clock)
        self._checker = Checker(TOPICS, *self._servers, _PREFIX)
        self._progress = Progress(TOPICS)
        self._backlog = BacklogRun()
        self._backlog_ends: Mapping[PartitionKey, PartitionEnds] = {}
        self._in_sync = False
        self._grace: Deadline | None = None
        self._began_at = clock.monotonic()

    def run(self) -> Summary:
        self._create_topics()
        self._produce_backlog()
        with contextlib.ExitStack() as stack:
            producer = _Child("The demo's producer", self._producer("steady"))
            stack.enter_context(producer.process)
            lease = stack.enter_context(contextlib.closing(PortLease(cache_directory() / "ports")))
            mirror = self._start_mirror(f"http://{LOOPBACK}:{lease.port}")
            stack.callback(mirror.close)
            probe = LatencyProbe(self._servers[1], f"{_PREFIX}{TOPICS[0].name}", 0)
            stack.callback(probe.close)
            self._watch(producer, mirror, probe)
            return self._finish(producer, mirror, probe)

    # Before the mirror.

    def _create_topics(self) -> None:
        from connect.clients.admin import Admin

        self._stop.check()
        self._view.say(f"Creating topics on {SOURCE}: " + ", ".join(topic.name for topic in TOPICS))
        admin = Admin({"bootstrap.servers": self._servers[0]})
        try:
            for topic in TOPICS:
                admin.create_topic(topic.name, topic.partitions, 1, topic.configs, _CREATE_S)
        finally:
            admin.close()

    def _producer(self, mode: str) -> GuardedProcess:
        command = [sys.executable, "-m", "deploy.demo.producer", mode, self._servers[0]]
        return GuardedProcess(command, self._directory / "producer.log")

    def _produce_backlog(self) -> None:
        total = sum(topic.backlog for topic in TOPICS)
        what = "Producing a backlog"
        deadline = Deadline(_BACKLOG_S, self._clock)
        with self._producer("backlog") as process:
            child = _Child("The demo's producer", process)
            while process.running():
                deadline.check("Producing the backlog")
                self._stop.event.wait(_BUSY_TICK_S)
                self._stop.check()
                made = sum(e.source_end for e in self._watcher.observe({}).ends.values())
                self._view.bar(what, min(made, total), total, "records")
            child.check()
        self._view.bar(what, total, total, "records")
        self._backlog_ends = self._watcher.observe({}).ends

    def _start_mirror(self, listener: str) -> Mirror:
        properties = self._directory / "mm2.properties"
        properties.write_text(mm2_properties(*self._servers, listener))
        self._view.say(f"Starting: connect-mirror-maker {properties}")
        self._view.say(f"Its pages: {listener}/metrics and {listener}/health")
        return Mirror(properties, self._directory / "mirror.log", listener)

    # While it mirrors.

    def _watch(self, producer: _Child, mirror: Mirror, probe: LatencyProbe) -> None:
        while not (self._stop.event.is_set() or self._time_is_up()):
            self._look(producer, mirror)
            if not self._in_sync and nearly_in_sync(TOPICS, self._progress.latest.ends):
                self._check_sync()
                if self._in_sync:
                    probe.start()
            self._stop.event.wait(_TICK_S if self._backlog.complete else _BUSY_TICK_S)

    def _time_is_up(self) -> bool:
        """Whether the time is over; without having been in sync once, more time is given."""
        if self._until is None or not self._until.expired():
            return False
        if self._in_sync:
            return True
        if self._grace is None:
            self._grace = Deadline(SYNC_CAP_S, self._clock)
        if self._grace.expired():
            raise ProcessFailed(
                f"Not all was in sync {SYNC_CAP_S:g} s after the demo's time was over"
            )
        return False

    def _look(self, producer: _Child, mirror: Mirror) -> None:
        producer.check()
        mirror.check()
        # Before the backlog is copied nobody asks the mirror itself: that would be measured too.
        reported = mirror.reported_lag() if self._backlog.complete else {}
        self._progress.add(self._watcher.observe(reported))
        self._note_backlog(mirror)
        self._show()

    def _show(self) -> None:
        rows = self._progress.rows()
        lags = [row.lag_records for row in rows if row.lag_records is not None]
        elapsed = self._clock.monotonic() - self._began_at
        state = "in sync" if self._in_sync else "catching up"
        self._view.topics(
            rows,
            f"{elapsed:.0f} s: {state}, {self._progress.copied_records():,} records copied, lag "
            f"{sum(lags):,}, {sum(row.bytes_per_s for row in rows) / 1e6:.1f} MB/s"
            + ("" if self._until is not None else "; Ctrl-C ends the demo"),
        )

    def _note_backlog(self, mirror: Mirror) -> None:
        """Measure the copying of the backlog, by the topics whose offsets tell how much is left."""
        run, latest = self._backlog, self._progress.latest
        if run.complete:
            return
        copied = self._progress.copied_records()
        if copied and run.began_at is None:
            run.began_at = latest.at
            run.records_before = copied
            run.bytes_before = self._progress.copied_bytes()
            run.cost_before = mirror.cost()
        done = total = 0
        for topic in TOPICS:
            for key in topic.partition_keys if topic.gapless else ():
                total += self._backlog_ends[key].source_end
                done += min(self._backlog_ends[key].source_end, latest.ends[key].target_end)
        self._view.bar("Copying the backlog", done, total, "records")
        if done == total:
            run.ended_at = latest.at
            run.records_after = copied
            run.bytes_after = self._progress.copied_bytes()
            run.cost_after = mirror.cost()

    def _check_sync(self) -> None:
        try:
            missing = self._checker.newest_arrived(self._progress.latest.ends)
        except RetriableError:
            return  # asked again at the next look; whatever is wrong shows there
        if not missing:
            self._in_sync = True
            elapsed = self._clock.monotonic() - self._began_at
            partitions = sum(topic.partitions for topic in TOPICS)
            self._view.say(
                f"All is in sync {elapsed:.1f} s after the clusters were up: the newest records of "
                f"all {partitions} partitions are equal on both sides"
            )

    # The end.

    def _finish(self, producer: _Child, mirror: Mirror, probe: LatencyProbe) -> Summary:
        self._view.say("Ending: the producer stops, the last records are copied and compared")
        seconds = self._clock.monotonic() - self._began_at
        producer.check()
        producer.process.stop(_PRODUCER_STOP_S)
        comparison = self._drain_and_compare(mirror) if self._in_sync else None
        probe.close()
        cost = mirror.cost()
        status = mirror.stop(_MIRROR_STOP_S)
        if status == _TERMINATED and not self._in_sync:
            status = 0  # it was stopped so early that it did not listen to signals yet
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
        )

    def _drain_and_compare(self, mirror: Mirror) -> Comparison:
        deadline = Deadline(_DRAIN_S, self._clock)
        while True:
            mirror.check()
            self._progress.add(self._watcher.observe(mirror.reported_lag()))
            self._show()
            if self._drained():
                return self._checker.compare(self._progress.latest.ends)
            deadline.check("Copying the last records")
            self._stop.event.wait(_BUSY_TICK_S)

    def _drained(self) -> bool:
        """Whether nothing is left to copy, by offsets and by the newest records."""
        ends = self._progress.latest.ends
        left = any(
            ends[key].source_end != ends[key].target_end
            for topic in TOPICS
            if topic.gapless
            for key in topic.partition_keys
        )
        return not left and not self._checker.newest_arrived(ends)
