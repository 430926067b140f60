"""Progress of a backfill: bytes left, rate, and expected end. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from connectors.mirror.backfill.scheduler import PartitionJob, PartitionState

__all__ = ["Arrival", "JobProgress"]

WINDOW_S = 60.0
"""The rate is averaged over this time, because older samples predict little."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of the whole job at one moment. `left_s`: the estimated time left; None while
    there is no progress."""

    partitions: int
    done: int
    failed: int
    copied_records: int
    copied_bytes: int
    left_bytes: int
    left_offsets: int
    rate: float
    left_s: float | None
    seconds: float
    lost: int = 0

    @property
    def share(self) -> float:
        """Return the copied share of all bytes, 0 to 1."""
        total = self.copied_bytes + self.left_bytes
        if not self.left_offsets:
            return 1.0
        return self.copied_bytes / total if total else 0.0


@dataclass(slots=True)
class Arrival:
    """Keeps samples of the bytes copied over time."""

    _began: float | None = None
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def look(self, jobs: Iterable[PartitionJob], now: float) -> JobProgress:
        """Take a sample. `now`: monotonic seconds; must not decrease."""
        every = list(jobs)
        copied = sum(job.copied_bytes for job in every)
        if self._began is None:
            self._began = now
        self._samples.append((now, copied))
        # The newest sample before the window stays as its start.
        while len(self._samples) > 2 and self._samples[1][0] <= now - WINDOW_S:
            self._samples.popleft()
        rate = self._rate()
        going = [job for job in every if job.state is not PartitionState.FAILED]
        left = sum(job.left_bytes for job in going)
        offsets = sum(job.left for job in going)
        return JobProgress(
            partitions=len(every),
            done=sum(job.state is PartitionState.DONE for job in every),
            failed=sum(job.state is PartitionState.FAILED for job in every),
            copied_records=sum(job.copied_records for job in every),
            copied_bytes=copied,
            left_bytes=left,
            left_offsets=offsets,
            rate=rate,
            left_s=0.0 if not offsets else (left / rate if rate > 0 else None),
            seconds=now - self._began,
            lost=sum(job.lost for job in every),
        )

    def _rate(self) -> float:
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        return (after - before) / (last - first) if last > first else 0.0
