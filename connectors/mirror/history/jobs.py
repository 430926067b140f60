"""Writes the progress of a backfill or an audit into the flow's history."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from connect.clock import SYSTEM_CLOCK, Clock
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.history.database import open_history
from connectors.mirror.history.rows import FlowTask, JobRow

__all__ = ["JobHistory", "JobState"]

_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class JobState:
    """What is done and left; see `JobRow`. `left_s`: None if not known."""

    parts: int
    done: int
    failed: int
    records: int
    bytes: int
    left_bytes: int
    rate: float
    left_s: float | None


class JobHistory:
    """Belongs to one thread. Does nothing if the history is disabled. The owner calls `end` once
    the job is over, and then `close`."""

    def __init__(self, kind: str, config: SourceConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        """`kind`: backfill or audit."""
        self._kind = kind
        self._flow = FlowTask(kind, 0, config.source_cluster_alias, config.target_cluster_alias)
        self._history = open_history(
            config.mirror_history_url, config.mirror_history_retention_days
        )
        self._clock = clock
        self._job = uuid.uuid4().hex
        self._began_ms = clock.now_ms()
        self._at: float | None = None
        self._last: JobState | None = None
        self._ended = False

    def tell(self, state: JobState) -> None:
        """Note the progress; a row is written every 10 s."""
        self._last = state
        now = self._clock.monotonic()
        if self._at is None or now - self._at >= _EVERY_S:
            self._at = now
            self._write("running", state, "")

    def end(self, state: str, text: str = "") -> None:
        """Write the last row. `state`: done, failed or stopped."""
        self._ended = True
        self._write(state, self._last or JobState(0, 0, 0, 0, 0, 0, 0.0, None), text)

    def close(self) -> None:
        """Write what is queued. A job that did not `end` has failed."""
        if self._history is None:
            return
        if not self._ended:
            self.end("failed")
        self._history.close()
        self._history = None

    def _write(self, state: str, of: JobState, text: str) -> None:
        if self._history is None:
            return
        left_ms = None if of.left_s is None else round(of.left_s * 1000)
        row = JobRow(
            self._job,
            self._kind,
            state,
            self._began_ms,
            of.parts,
            of.done,
            of.failed,
            of.records,
            of.bytes,
            of.left_bytes,
            of.rate,
            left_ms,
            text,
        )
        self._history.add(self._flow, row)
