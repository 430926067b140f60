"""Writes the progress of a backfill, an audit, an archive, its restore or its verification into the
flow's history."""

from __future__ import annotations

import uuid
from dataclasses import asdict

from connect.clock import SYSTEM_CLOCK, Clock
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.history.database import open_history
from connectors.mirror.history.rows import FlowTask, JobRow, JobState

__all__ = ["JobHistory", "reading_state"]

_EVERY_S = 10.0


class JobHistory:
    """Belongs to one thread. Does nothing if the history is disabled. The owner calls `end` once
    the job is over, and then `close`."""

    def __init__(self, kind: str, config: SourceConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        """`kind`: backfill, audit, archive, restore or verification."""
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
        self._write(state, self._last or JobState(), text)

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
        row = JobRow(
            **asdict(of),
            job=self._job,
            kind=self._kind,
            state=state,
            began_ms=self._began_ms,
            text=text,
        )
        self._history.add(self._flow, row)


def reading_state(
    *, parts: int, done: int, failed: int, read: int, planned: int, seconds: float, records: int = 0
) -> JobState:
    """Return the state of a job that reads and compares. `read` and `planned`: bytes, of all parts;
    `seconds`: since it began to read."""
    left = max(0, planned - read)
    rate = read / seconds if seconds > 0 else 0.0
    return JobState(
        parts=parts,
        done=done,
        failed=failed,
        records=records,
        bytes=read,
        left_bytes=left,
        rate=rate,
        left_ms=round(left / rate * 1000) if rate > 0 else None,
    )
