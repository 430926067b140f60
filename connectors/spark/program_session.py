"""A Spark session for a program that needs one, for the duration of a block of code."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import SparkSession

from connect.clock import Deadline
from connectors.spark.errors import SparkUnavailable
from connectors.spark.properties import MASTER, REMOTE
from connectors.spark.remote_address import REMOTE_SCHEME
from connectors.spark.requirements import require_spark
from connectors.spark.session import (
    CLOSE_TIMEOUT_S,
    SharedSession,
    SparkLease,
    SparkPhase,
)

__all__ = ["Patience", "own_session", "without_retries"]

log = logging.getLogger(__name__)

_POLL_S = 0.2


class Patience(NamedTuple):
    """How long to wait for a session and its end, in seconds."""

    silent: float = 5.0
    """Time before the wait is logged. A local session takes about as long."""
    start: float = 300.0
    """Total time. A first start may have to download Spark's Kafka source."""
    failed: float = 30.0
    """Time after a first failure. A master that is being restarted is back by then."""
    end: float = CLOSE_TIMEOUT_S
    """Time for the JVM to end by itself."""


_PATIENCE = Patience()


def without_retries(props: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a session that never runs a task again by itself, for tasks that may
    still be sending when it would."""
    return {"spark.task.maxFailures": "1", **props, "spark.speculation": "false"}


@contextmanager
def own_session(
    who: str,
    props: Mapping[str, str],
    *,
    kafka: bool = False,
    frames: bool = False,
    instead: str = "",
    patience: Patience = _PATIENCE,
) -> Iterator[SparkSession]:
    """Yield a session with the `spark.*` of `props`, and end it with the block.

    `kafka`: with Spark's Kafka source; `frames`: with what Python data sources need. While there is
    no session, the log says why. Raises `SparkUnavailable` after `patience`, with remedies that
    include `instead`; `ConfigError` at once for invalid properties; `SparkMissing` at once without
    Java.
    """
    require_spark(props, instead)
    shared, ready = SharedSession(), threading.Event()
    try:
        lease = shared.acquire(who, props, kafka=kafka, frames=frames, on_ready=ready.set)
        _wait(shared, lease, ready, patience, instead)
        session = lease.session
        if session is None:
            raise SparkUnavailable(
                f"the Spark session was lost right after its start: {lease.state}"
            )
        yield session
    finally:
        shared.close(patience.end)


def _wait(
    shared: SharedSession,
    lease: SparkLease,
    ready: threading.Event,
    patience: Patience,
    instead: str,
) -> None:
    whole, silent = Deadline(patience.start), Deadline(patience.silent)
    failed: Deadline | None = None
    told = False
    while not ready.wait(_POLL_S):
        if shared.ended_by is not None:
            raise shared.ended_by
        state = lease.state
        if state.phase is SparkPhase.FAILED:
            if failed is None:  # The session's thread has logged the reason.
                told, failed = True, Deadline(patience.failed)
                log.warning("retrying Spark on %s for %.0f s", state.master, patience.failed)
            # Let a running attempt end.
            if failed.expired():
                raise SparkUnavailable(_given_up(state.master, state.reason, instead))
        if not told and silent.expired():
            told = True
            log.warning("Waiting until Spark on %s answers", state.master)
        if whole.expired():
            reason = f"{state.master} did not answer in time"
            raise SparkUnavailable(_given_up(state.master, reason, instead))


def _given_up(place: str, reason: str, instead: str) -> str:
    remedy = (
        f"Check that the server runs, and its address in {REMOTE}"
        if place.startswith(REMOTE_SCHEME)
        else f"Check that Spark can run there, or set another master in {MASTER}"
    )
    return f"Cannot use Spark: {reason}. {'; or '.join([remedy, *([instead] if instead else [])])}"
