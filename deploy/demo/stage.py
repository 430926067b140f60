"""Shared by the demos: two clusters, a backlog on the first, and the progress of the copy.

Everything runs on the main thread. Resources are always closed in reverse order.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from connect.clock import Clock, Deadline
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
from deploy.brokers.process import complaints
from deploy.demo.checking import NEAR_S, Checker, nearly_in_sync
from deploy.demo.clusters import running_clusters
from deploy.demo.events import TOPICS
from deploy.demo.mirror import SOURCE, TARGET
from deploy.demo.progress import Observation, PartitionEnds, Progress, Watcher
from deploy.demo.reading import PartitionKey
from deploy.demo.stopping import Stop
from deploy.demo.view import View, lag_text

__all__ = ["BUSY_TICK_S", "PREFIX", "TICK_S", "Child", "Stage", "on_two_clusters"]

T = TypeVar("T")

TICK_S = 0.5
BUSY_TICK_S = 0.2
"""Interval between observations. It is shorter while the backlog is copied, which takes only
seconds."""

_BACKLOG_S = 180.0
_CREATE_S = 30.0
PREFIX = f"{SOURCE}."
"""The prefix of copied topics' names."""


def on_two_clusters(
    view: View,
    stop: Stop,
    seconds: float | None,
    clock: Clock,
    act: Callable[[Stage], T],
    *,
    repeats: bool = False,
) -> T:
    """Start both clusters, and call `act` with them. `seconds` counts from then on (None: no end).
    `repeats`: records may be copied twice.

    Raises `ConnectError`, whose message is for the user, and `StopRequested` if a stop was
    requested before there was any result.
    """
    with stop.interrupting():
        shown = f"Downloading Kafka {KAFKA_VERSION}"
        kafka = kafka_runtime(lambda done: _download(view, shown, done))
    with _directory(view) as directory:
        view.say(f"Starting two Kafka {KAFKA_VERSION} clusters, {SOURCE} and {TARGET}")
        with running_clusters((SOURCE, TARGET), kafka, directory, stop) as (source, target):
            view.say(f"{SOURCE} is at {source.bootstrap_servers}")
            view.say(f"{TARGET} is at {target.bootstrap_servers}")
            until = None if seconds is None else Deadline(seconds, clock)
            stage = Stage(view, stop, until, directory, source, target, clock, repeats=repeats)
            return act(stage)


def _download(view: View, what: str, progress: DownloadProgress) -> None:
    view.bar(what, progress.bytes_done / 1e6, progress.bytes_total / 1e6, "MB")


@contextlib.contextmanager
def _directory(view: View) -> Iterator[Path]:
    """Yield a directory for logs and the properties file. It is kept if something failed."""
    directory = Path(tempfile.mkdtemp(prefix="mirror-demo-"))
    try:
        yield directory
    except ConnectError:
        view.say(f"The demo failed; all logs are in {directory}")
        raise
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Child:
    """A producer process and its name in messages."""

    what: str
    process: GuardedProcess

    def check(self) -> None:
        """Raise `ProcessFailed` if it has ended with an error."""
        if self.process.poll():
            raise ProcessFailed(f"{self.what} failed: {complaints(self.process.log)}")


class Stage:
    """Both clusters, the topics and their backlog, and the observations of the copy. Used by one
    thread."""

    def __init__(
        self,
        view: View,
        stop: Stop,
        until: Deadline | None,
        directory: Path,
        source: KafkaCluster,
        target: KafkaCluster,
        clock: Clock,
        *,
        repeats: bool,
    ) -> None:
        """`repeats`: records may be in the copy twice."""
        self.view = view
        self.stop = stop
        self.until = until
        self.directory = directory
        self.servers = (source.bootstrap_servers, target.bootstrap_servers)
        self.target_data = target.node(1).directory / "data"
        self.clock = clock
        self.checker = Checker(TOPICS, *self.servers, PREFIX)
        self.progress = Progress(TOPICS, repeats=repeats)
        self._watcher = Watcher(TOPICS, *self.servers, PREFIX, clock)
        self._backlog_ends: Mapping[PartitionKey, PartitionEnds] = {}
        self._began_at = clock.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since both clusters were up."""
        return self.clock.monotonic() - self._began_at

    def create_topics(self) -> None:
        from connect.clients.librdkafka.admin import Admin

        self.stop.check()
        self.view.say(f"Creating topics on {SOURCE}: " + ", ".join(topic.name for topic in TOPICS))
        admin = Admin({"bootstrap.servers": self.servers[0]})
        try:
            for topic in TOPICS:
                admin.create_topic(topic.name, topic.partitions, 1, topic.configs, _CREATE_S)
        finally:
            admin.close()

    def start_producer(self, mode: str) -> Child:
        """Start a producer. `mode`: `backlog` or `steady`. The caller closes the process."""
        command = [sys.executable, "-m", "deploy.demo.producer", mode, self.servers[0]]
        process = GuardedProcess(command, self.directory / "producer.log")
        return Child("The demo's producer", process)

    def produce_backlog(self) -> None:
        total = sum(topic.backlog for topic in TOPICS)
        what = "Producing a backlog"
        deadline = Deadline(_BACKLOG_S, self.clock)
        child = self.start_producer("backlog")
        with child.process as process:
            while process.running():
                deadline.check("Producing the backlog")
                self.stop.event.wait(BUSY_TICK_S)
                self.stop.check()
                made = sum(e.source_end for e in self._watcher.observe({}).ends.values())
                self.view.bar(what, min(made, total), total, "records")
            child.check()
        self.view.bar(what, total, total, "records")
        self._backlog_ends = self._watcher.observe({}).ends

    def observe(self, reported_lag: Mapping[PartitionKey, int]) -> Observation:
        """Observe both clusters. `reported_lag`: the lag that the mirror reports."""
        self.progress.add(self._watcher.observe(reported_lag))
        return self.progress.latest

    def show(self, state: str, hint: str = "") -> None:
        """Show the table of topics of the last observation, and the overall state in one line."""
        rows, latest = self.progress.rows(), self.progress.latest
        lags = [row.lag_records for row in rows if row.lag_records is not None]
        silent = [
            name
            for name, is_silent in ((SOURCE, latest.source_silent), (TARGET, latest.target_silent))
            if is_silent
        ]
        if silent:
            state = f"{' and '.join(silent)} not answering"
        rate = sum(row.bytes_per_s for row in rows) / 1e6
        self.view.topics(
            rows,
            f"{self.elapsed_s:.0f} s: {state}, {self.progress.copied_records():,} records copied, "
            f"lag {lag_text(None if silent else sum(lags))}, {rate:.1f} MB/s{hint}",
        )

    def wait_until(
        self,
        look: Callable[[], None],
        condition: Callable[[], bool],
        what: str,
        timeout_s: float,
        tick_s: float = BUSY_TICK_S,
    ) -> None:
        """Call `look` until the condition holds. Raises `ProcessFailed` after `timeout_s`."""
        deadline = Deadline(timeout_s, self.clock)
        while True:
            look()
            if condition():
                return
            if deadline.expired():
                raise ProcessFailed(f"It took longer than {timeout_s:g} s until {what}")
            self.stop.event.wait(tick_s)

    def backlog_copied(self) -> tuple[int, int]:
        """Return the number of copied records and of all records of the backlog, and show it.
        Counts the topics whose offsets show how much is left."""
        done = total = 0
        for topic in TOPICS:
            for key in topic.partition_keys if topic.gapless else ():
                end = self._backlog_ends[key].source_end
                total += end
                done += min(end, self.progress.latest.ends[key].target_end)
        self.view.bar("Copying the backlog", done, total, "records")
        return done, total

    def all_arrived(self) -> bool:
        """Whether the newest observed records of all partitions are in the copy. False also if this
        cannot be determined now."""
        ends = self.progress.latest.ends
        if not self.nearly_in_sync():
            return False
        try:
            return not self.checker.newest_arrived(ends)
        except RetriableError:
            return False  # The next observation tries again, and shows a permanent problem.

    def nearly_in_sync(self, near_s: float = NEAR_S) -> bool:
        """Whether all partitions are within `near_s` seconds of their sources. False also if a
        cluster does not answer."""
        latest = self.progress.latest
        return not latest.silent and nearly_in_sync(TOPICS, latest.ends, near_s)

    def drained(self) -> bool:
        """Whether nothing is left to copy, by offsets and by the newest records."""
        if self.progress.latest.silent:
            return False
        ends = self.progress.latest.ends
        left = any(
            ends[key].source_end != ends[key].target_end
            for topic in TOPICS
            if topic.gapless
            for key in topic.partition_keys
        )
        return not left and not self.checker.newest_arrived(ends)
