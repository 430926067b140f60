"""The demo of Spark on a standalone cluster that it starts: a backfill, a mirror that copies there,
syncs a changed config and translates a group's offsets there, and two audits. The first finds a
complete copy. The second finds the record that was tampered with on the target in between.

Everything runs on the main thread. Resources are always closed in reverse order.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from connect.clock import SYSTEM_CLOCK, Clock
from deploy.brokers import ProcessFailed
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from deploy.demo.commands import Ran, run_command
from deploy.demo.comparing import Comparison
from deploy.demo.events import topic_named
from deploy.demo.mirror import SOURCE, TARGET, Mirror, mm2_properties
from deploy.demo.moving import GROUP, MovedGroup, has_place, move_group
from deploy.demo.periodic_jobs import (
    CHANGED,
    CHANGED_CONFIG,
    CHECKPOINTS,
    CONFIG_SYNC,
    change_config,
    copied_config,
    engine_of,
)
from deploy.demo.stage import PREFIX, TICK_S, Child, Stage, on_two_clusters
from deploy.demo.stopping import Stop
from deploy.demo.tampering import tamper
from deploy.demo.view import View
from deploy.spark_cluster import SparkCluster

__all__ = ["SparkSummary", "run_spark_demo"]

HISTORY = topic_named("clicks")
"""The topic that is backfilled before the mirror starts."""

TAMPERED = topic_named("logs")
"""Uncompressed, so that a byte of a value is also a byte of the log."""

_WORKERS, _CORES = (2, 1) if (os.cpu_count() or 1) > 2 else (1, 2)
"""Two executors, but one of two cores where brokers, mirror and Spark share only two."""

_SPARK = """
# Naming a cluster is enough: Spark copies there, syncs configs, and translates groups' offsets.
spark.master = {master}

# Small executors, because everything here shares one machine. They use this Python.
spark.executor.memory = 512m
spark.pyspark.python = {python}

# Look for changed configs, and commit groups' offsets, every few seconds.
sync.topic.configs.interval.seconds = 5
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 5
"""
_ON_SPARK = "spark"
_COMMAND_S = 300.0
_STEP_S = 300.0
_NEAR_S = 5.0
_PRODUCER_STOP_S = 20.0
_MIRROR_STOP_S = 60.0
_EQUAL, _DIFFERENT = 0, 3
"""Exit codes of connect-mirror-audit."""


@dataclass(slots=True)
class SparkSummary:
    """The results of the demo; None for steps that did not happen. `named`: the audit's line about
    the record that was tampered with. `config_s`: seconds until a changed config was on the target.
    `engines`: who computed the last round of each periodic job."""

    records: int = 0
    seconds: float = 0.0
    backfill: Ran | None = None
    config_s: float | None = None
    moved: MovedGroup | None = None
    engines: dict[str, str] = field(default_factory=dict)
    comparison: Comparison | None = None
    audit: Ran | None = None
    second_audit: Ran | None = None
    tampered: str = ""
    named: str | None = None

    @property
    def problem(self) -> str | None:
        """Return the problem in one sentence; None if all went well."""
        if self.backfill is not None and self.backfill.status:
            return f"The backfill exited with status {self.backfill.status}"
        if self.comparison is not None and self.comparison.different is not None:
            return "The copy differs from its source"
        if self.moved is not None and not self.moved.exact:
            return "The moved group did not read each record exactly once"
        if self.audit is not None and self.audit.status != _EQUAL:
            return f"The audit of an undamaged copy exited with status {self.audit.status}"
        if self.second_audit is not None and self.named is None:
            return "The audit did not find the record that was tampered with"
        return None

    def lines(self) -> Iterator[str]:
        if self.backfill is not None:
            yield (
                f"Backfill of {HISTORY.name}: {HISTORY.backlog:,} existing records in "
                f"{self.backfill.seconds:.0f} s, including Spark's start"
            )
        yield f"Copied {self.records:,} records on Spark in {self.seconds:.0f} s"
        if self.config_s is not None:
            yield (
                f"{CHANGED_CONFIG.name} of {CHANGED.name} followed its source in "
                f"{self.config_s:.0f} s, computed by: {self.engines[CONFIG_SYNC]}"
            )
        if self.moved is not None:
            yield f"{self.moved.describe()}; translated by: {self.engines[CHECKPOINTS]}"
        if self.comparison is not None and self.comparison.different is None:
            yield f"Compared record by record: {self.comparison.equal:,} equal, none different"
        if self.audit is not None:
            yield f"Audit ({self.audit.seconds:.0f} s): {self.audit.lines[-1]}"
        if self.named is not None:
            yield (
                f"Changed one byte of {self.tampered} on the target; the audit found: {self.named}"
            )


def run_spark_demo(
    view: View, stop: Stop, seconds: float | None, clock: Clock = SYSTEM_CLOCK
) -> SparkSummary:
    """Run all steps, or until `stop`. With `seconds`, the mirror runs until that long after the
    clusters were up. Raises the errors of `on_two_clusters`."""
    return on_two_clusters(view, stop, seconds, clock, lambda stage: _SparkDemo(stage).run())


class _SparkDemo:
    """The steps of the demo once both clusters are up."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._view = stage.view
        self._properties = stage.directory / "mm2.properties"
        self._told = SparkSummary()

    def run(self) -> SparkSummary:
        stage = self._stage
        stage.create_topics()
        stage.produce_backlog()
        with self._spark_cluster() as spark, contextlib.ExitStack() as stack:
            lease = stack.enter_context(contextlib.closing(PortLease(cache_directory() / "ports")))
            listener = f"http://{LOOPBACK}:{lease.port}"
            on_spark = _SPARK.format(master=spark.url, python=sys.executable)
            self._properties.write_text(mm2_properties(*stage.servers, listener) + on_spark)
            producer = stage.start_producer("steady")
            with producer.process:
                self._backfill()
                self._mirror(producer, listener)
            self._audit()
            self._tamper_and_audit()
        self._told.seconds = stage.elapsed_s
        return self._told

    @contextlib.contextmanager
    def _spark_cluster(self) -> Iterator[SparkCluster]:
        self._view.say(
            f"Starting a Spark cluster: a master, and {_WORKERS} x {_CORES} cores of workers"
        )
        cluster = SparkCluster(_WORKERS, cores=_CORES, logs=self._stage.directory)
        with contextlib.closing(cluster):
            with self._stage.stop.interrupting():
                cluster.start()
            self._view.say(f"Its master is at {cluster.url}")
            yield cluster

    def _backfill(self) -> None:
        arguments = ["connect-mirror-backfill", str(self._properties), "--topics", HISTORY.name]
        self._told.backfill = self._run(arguments, "backfill.log", self._view.say)

    def _mirror(self, producer: Child, listener: str) -> None:
        self._view.say(f"Starting: connect-mirror-maker {self._properties}")
        self._view.say(f"Its pages: {listener}/metrics and {listener}/health")
        log = self._stage.directory / "mirror.log"
        with contextlib.closing(Mirror(self._properties, log, listener)) as mirror:
            # The engine copies in steps, so some records are always in flight.
            self._until(producer, mirror, self._following, "copying continuously")
            self._view.say(
                f"All partitions are within {_NEAR_S:g} s of their sources, "
                f"{self._stage.elapsed_s:.1f} s after the clusters were up"
            )
            self._change_config(producer, mirror, listener)
            until = self._stage.until
            while until is not None and not until.expired():
                self._look(producer, mirror, "following")
                self._stage.stop.event.wait(TICK_S)
            self._view.say(
                "Stopping: the producer stops, then the last records are copied and compared"
            )
            producer.process.stop(_PRODUCER_STOP_S)
            self._until(producer, mirror, self._stage.drained, "the last records are copied")
            self._told.comparison = self._stage.checker.compare(self._stage.progress.latest.ends)
            self._told.records = self._stage.progress.copied_records()
            self._move_group(producer, mirror, listener)
            status = mirror.stop(_MIRROR_STOP_S)
            if status:
                raise ProcessFailed(f"connect-mirror-maker exited with status {status}; see {log}")

    def _change_config(self, producer: Child, mirror: Mirror, listener: str) -> None:
        """Change a config on the source, and wait until the target has it from Spark."""
        source, target = self._stage.servers
        self._view.say(
            f"Setting {CHANGED_CONFIG.name} of {CHANGED.name} to {CHANGED_CONFIG.value} on {SOURCE}"
        )
        began = self._stage.clock.monotonic()
        change_config(source)
        self._until(
            producer, mirror, lambda: copied_config(target, PREFIX), f"{TARGET} has the config"
        )
        self._told.config_s = self._stage.clock.monotonic() - began
        self._await_engine(producer, mirror, listener, CONFIG_SYNC)

    def _move_group(self, producer: Child, mirror: Mirror, listener: str) -> None:
        """A group reads on the source, and goes on where the mirror has put it on the target."""
        source, target = self._stage.servers
        self._view.say(f"Group {GROUP} reads some payments in {SOURCE}, then moves to {TARGET}")

        def placed() -> bool:
            return has_place(target, PREFIX)

        def moved() -> None:
            self._until(producer, mirror, placed, f"group {GROUP} has offsets in {TARGET}")

        self._told.moved = move_group(source, target, PREFIX, moved)
        self._await_engine(producer, mirror, listener, CHECKPOINTS)

    def _await_engine(self, producer: Child, mirror: Mirror, listener: str, job: str) -> None:
        """Wait until Spark has computed a round of this job, and note what /health says."""

        def on_spark() -> bool:
            self._told.engines[job] = engine_of(listener, job)
            return self._told.engines[job] == _ON_SPARK

        self._until(producer, mirror, on_spark, f"{job} was computed by Spark")

    def _audit(self) -> None:
        arguments = ["connect-mirror-audit", str(self._properties)]
        self._told.audit = self._run(arguments, "audit.log")
        self._view.say(self._told.audit.lines[-1])

    def _tamper_and_audit(self) -> None:
        """Change the record in the middle of a partition, then audit the copy."""
        partition = 0
        end = self._stage.progress.latest.ends[TAMPERED.name, partition].target_end
        topic = f"{PREFIX}{TAMPERED.name}"
        tamper(self._stage.target_data, topic, partition, end // 2)
        self._told.tampered = f"the record at offset {end // 2} of {topic}-{partition}"
        self._view.say(f"Changed one byte of {self._told.tampered}, in the broker's log")
        arguments = [
            "connect-mirror-audit",
            str(self._properties),
            *("--topics", TAMPERED.name),
        ]
        ran = self._told.second_audit = self._run(arguments, "second-audit.log")
        self._told.named = _line_about(ran, end // 2)
        self._view.say(self._told.named or f"The audit exited with status {ran.status}")

    def _run(
        self, arguments: Sequence[str], log: str, say: Callable[[str], None] = lambda line: None
    ) -> Ran:
        self._view.say(" ".join(arguments))
        stage = self._stage
        return run_command(
            arguments, Path(stage.directory / log), stage.stop, stage.clock, _COMMAND_S, say
        )

    # Observation.

    def _following(self) -> bool:
        return self._stage.nearly_in_sync(_NEAR_S)

    def _until(
        self, producer: Child, mirror: Mirror, condition: Callable[[], bool], what: str
    ) -> None:
        look = partial(self._look, producer, mirror, "copying on Spark")
        self._stage.wait_until(look, condition, what, _STEP_S)

    def _look(self, producer: Child, mirror: Mirror, state: str) -> None:
        self._stage.stop.check()
        producer.check()
        mirror.check()
        self._stage.observe(mirror.reported_lag())
        self._stage.show(state)


def _line_about(ran: Ran, offset: int) -> str | None:
    """Return the audit's line about the record at this offset; None if there is none."""
    if ran.status != _DIFFERENT:
        return None
    for line in ran.lines:
        kind, *rest = line.split("\t")
        if kind == "changed" and rest[-1] == str(offset):
            return (
                f"{rest[0]} record {kind}, at source offset {rest[1]} and target offset {rest[2]}"
            )
    return None
