"""The streaming query of one flow: runs micro-batches that copy shards while there is a session.

One thread owns it. It waits for the shared session, starts the query, and restarts it when it or
the session is lost. Each micro-batch gets shards from its host, copies them on executors, and
returns the results. The query's own checkpoint is not used, because a copy continues from the
source offsets that Connect stores. So each start has its own checkpoint directory.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connect.cache_directory import cache_directory
from connect.errors import ConfigError, ConnectError
from connect.loop import BackgroundLoop, Backoff, OnError
from connectors.mirror.config.rates import FlowLimits
from connectors.mirror.copy.range_copier import DRAIN_S, SourceRange
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer
from connectors.mirror.spark.copy.shards import CopyFlow, ShardResult, copy_shards
from connectors.spark.errors import SparkJobFailed, job_errors
from connectors.spark.session import SharedSession, SparkPhase, shared_session

__all__ = ["UNHEARD_S", "Batch", "CopyQuery", "QueryHost"]

_LOG = logging.getLogger(__name__)

_LOOK_S = 0.5
_POLL_S = 0.2
_ANSWER_S = 5.0
_RETRY_FIRST_S, _RETRY_CAP_S = 1.0, 30.0

UNHEARD_S = DRAIN_S + 3.0
"""A task whose result is lost copies no longer than its time limit plus this."""


class Batch(NamedTuple):
    """A micro-batch. `claims`: the lane of each shard, if the flow writes exactly once. `paces`:
    each shard's share of the flow's limits, if there are any."""

    shards: Sequence[Sequence[SourceRange]] = ()
    claims: Sequence[ClaimedProducer] | None = None
    paces: Sequence[FlowLimits] | None = None


class QueryHost(Protocol):
    """Plans shards and stores results. Called on the query's threads; must not block."""

    def ask_shards(self, slots: int) -> Future[Batch]:
        """Return a future of the next shards for `slots` tasks, completed once there is something
        to copy. It is cancelled when the result is not needed any more."""

    def shard_done(self, result: ShardResult) -> None:
        """Handle the result of one shard of the batch."""

    def batch_done(self, error: ConnectError | None) -> None:
        """Handle the end of this batch. After an error, tasks that could not be reached may still
        copy shards without a result."""

    def engine_state(self, trouble: str | None) -> None:
        """Set why nothing can be copied now; None: it can."""

    def engine_failed(self, error: ConfigError) -> None:
        """Handle a permanent error: the engine cannot run with this configuration."""


class CopyQuery:
    """The query of one flow. The owner calls `start` and `stop` once each."""

    def __init__(
        self,
        name: str,
        props: Mapping[str, str],
        flow: CopyFlow,
        host: QueryHost,
        batch_s: float,
        shared: SharedSession | None = None,
    ) -> None:
        """Args: props: their `spark.*` configure the session. batch_s: the maximum time for which a
        task copies before it returns its result."""
        self.name = name
        self._flow = flow
        self._host = host
        self._batch_s = batch_s
        self._trouble: str | None = None
        self._speculates = False
        self._cancelled = threading.Event()
        self._loop = BackgroundLoop(
            f"Spark copy of {name}",
            self._step,
            interval_s=_LOOK_S,
            backoff=Backoff(_RETRY_FIRST_S, _RETRY_CAP_S),
            classify=lambda error: OnError.END if isinstance(error, ConfigError) else OnError.RETRY,
            on_end=self._ended,
        )
        self._lease = (shared or shared_session()).acquire(
            f"The copy of {name}", props, on_ready=self._loop.wake
        )

    def start(self) -> None:
        """Start the thread and return at once."""
        self._loop.start()

    def request_stop(self) -> None:
        """Start no more batches. The current one continues."""
        self._loop.request_stop()

    def stop(self, timeout: float) -> bool:
        """End the query and cancel the current batch. Returns False if its threads are still
        ending."""
        self._cancelled.set()
        self._loop.request_stop()
        ended = self._loop.stop(timeout)
        self._lease.release()
        return ended

    def _ended(self, error: Exception) -> None:
        if isinstance(error, ConfigError):
            self._host.engine_failed(error)

    # Methods of the query's thread.

    def _step(self) -> None:
        session = self._lease.want()
        if session is None:
            self._say(f"waiting for Spark, which is {self._lease.state}")
            return
        try:
            with job_errors(f"The copy of {self.name}"), _checkpoint() as directory:
                self._run(session, directory)
        except SparkJobFailed as error:
            self._lease.look()
            self._say(str(error))
            raise

    def _run(self, session: SparkSession, directory: Path) -> None:
        self._speculates = _speculates(session)
        ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        batches = _Batches(self, session, self._loop.stopping)
        query = (
            ticks.writeStream.queryName(f"{self.name} {uuid4()}")
            .option("checkpointLocation", directory.as_uri())
            .foreachBatch(batches.run)
            .start()
        )
        self._say(None)
        try:
            while not query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]
                if self._cancelled.is_set() or (self._loop.stopping.is_set() and batches.idle):
                    return
        finally:
            batches.over.set()
            _stop(query)

    def _say(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            if trouble is not None:
                starting = self._lease.state.phase is SparkPhase.STARTING
                level = logging.INFO if starting else logging.WARNING
                _LOG.log(level, "cannot copy %s: %s", self.name, trouble)
            elif self._trouble is not None:
                _LOG.info("copying %s again", self.name)
        self._trouble = trouble
        self._host.engine_state(trouble)

    # Methods of a micro-batch's thread.

    def copy(self, session: SparkSession, batch: Batch) -> None:
        """Copy the batch and pass on the results."""
        try:
            for result in copy_shards(
                session,
                self._flow,
                batch.shards,
                stall_s=float("inf"),
                most_s=self._batch_s,
                once=self._speculates or batch.claims is not None,
                again_s=self._batch_s + UNHEARD_S if self._speculates else 0.0,
                claims=batch.claims,
                paces=batch.paces,
            ):
                self._host.shard_done(result)
        except ConnectError as error:
            self._host.batch_done(error)
            self._lease.look()
        except BaseException as error:
            self._host.batch_done(SparkJobFailed(f"a batch failed: {type(error).__name__}"))
            raise
        else:
            self._host.batch_done(None)

    def ask(self, session: SparkSession) -> Future[Batch]:
        return self._host.ask_shards(session.sparkContext.defaultParallelism)


class _Batches:
    """Runs the micro-batches of one start of the query."""

    def __init__(self, owner: CopyQuery, session: SparkSession, stopping: threading.Event) -> None:
        self._owner = owner
        self._session = session
        self._stopping = stopping
        self.over = threading.Event()
        self.idle = True

    def run(self, _frame: DataFrame, _number: int) -> None:
        self.idle = False
        try:
            batch = self._next()
            if batch.shards:
                self._owner.copy(self._session, batch)
        finally:
            self.idle = True

    def _next(self) -> Batch:
        asked = self._owner.ask(self._session)
        while not (self._stopping.is_set() or self.over.is_set()):
            try:
                return asked.result(_POLL_S)
            except FutureTimeout:
                continue
        if asked.cancel():
            return Batch()
        return asked.result(_ANSWER_S)


def _speculates(session: SparkSession) -> bool:
    """Whether Spark may run a shard twice at the same time (speculation)."""
    return session.sparkContext.getConf().get("spark.speculation", "false") == "true"


def _stop(query: StreamingQuery) -> None:
    with suppress(SparkJobFailed), job_errors("Stopping the query"):
        query.stop()


@contextmanager
def _checkpoint() -> Iterator[Path]:
    """Create a temporary checkpoint directory. Deletes those of killed processes first."""
    root = cache_directory() / "spark-queries"
    root.mkdir(parents=True, exist_ok=True)
    prefix = f"{re.sub(r'[^A-Za-z0-9.-]', '_', socket.gethostname())}_"
    for left in root.glob(f"{prefix}*"):
        if not _alive(left.name.removeprefix(prefix).split("_")[0]):
            shutil.rmtree(left, ignore_errors=True)
    own = root / f"{prefix}{os.getpid()}_{uuid4().hex}"
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _alive(process: str) -> bool:
    if not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
