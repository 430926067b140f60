"""Prints the summary of a demo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deploy.demo.comparing import Comparison
from deploy.demo.latency import percentile
from deploy.demo.mirror import ProcessCost
from deploy.demo.moving import MovedGroup

__all__ = ["BacklogRun", "Summary"]

_MEGA = 1e6


@dataclass(slots=True)
class BacklogRun:
    """The copying of the backlog, from the first observation with records in the copy to the first
    one with all of them. Times are in monotonic seconds."""

    began_at: float | None = None
    ended_at: float | None = None
    records_before: int = 0
    records_after: int = 0
    bytes_before: float = 0.0
    bytes_after: float = 0.0
    cost_before: ProcessCost | None = None
    cost_after: ProcessCost | None = None

    @property
    def complete(self) -> bool:
        return self.ended_at is not None

    def describe(self) -> str | None:
        """Return the summary line; None if the backlog was not observed."""
        if self.began_at is None or self.ended_at is None or self.ended_at <= self.began_at:
            return None
        seconds = self.ended_at - self.began_at
        records = self.records_after - self.records_before
        size = self.bytes_after - self.bytes_before
        text = (
            f"Backlog: {records:,} records in {seconds:.1f} s, {records / seconds:,.0f} records/s, "
            f"{size / seconds / _MEGA:.0f} MB/s on average"
        )
        if self.cost_before is not None and self.cost_after is not None and records:
            cpu = self.cost_after.cpu_s - self.cost_before.cpu_s
            text += f", {cpu / records * 1e6:.2f} µs of the mirror's CPU per record"
        return text


@dataclass(slots=True)
class Summary:
    """The figures of one run. Sizes are those of keys and values, uncompressed."""

    records: int
    size: float
    seconds: float
    peak_bytes_per_s: float
    backlog: BacklogRun
    cost: ProcessCost | None
    latencies_ms: list[int]
    comparison: Comparison | None
    mirror_status: int
    moved: MovedGroup | None = None

    @property
    def problem(self) -> str | None:
        """Return the problem in one sentence; None if all went well."""
        if self.comparison is not None and self.comparison.different is not None:
            return "The copy differs from its source"
        if self.moved is not None and not self.moved.exact:
            return "The moved group did not read each record exactly once"
        if self.mirror_status:
            return f"connect-mirror-maker exited with status {self.mirror_status} when stopped"
        return None

    def lines(self) -> Iterator[str]:
        yield (
            f"Copied {self.records:,} records, {self.size / _MEGA:,.1f} MB of keys and values, "
            f"in {self.seconds:.0f} s; at most {self.peak_bytes_per_s / _MEGA:.0f} MB/s"
        )
        if (backlog := self.backlog.describe()) is not None:
            yield backlog
        if self.cost is not None:
            yield (
                f"The mirror used {self.cost.cpu_s:.1f} s of CPU, including its start, and "
                f"{self.cost.rss_bytes / _MEGA:.0f} MB of memory"
            )
        if self.latencies_ms:
            yield (
                "Latency from producer (including 5 ms of linger) to a consumer of the copy: "
                f"p50 {percentile(self.latencies_ms, 0.5)} ms, p99 "
                f"{percentile(self.latencies_ms, 0.99)} ms ({len(self.latencies_ms):,} records)"
            )
        if self.comparison is None:
            yield "The records were not compared, because some had not been copied yet"
        elif self.comparison.different is None:
            yield f"Compared record by record: {self.comparison.equal:,} equal, none different"
        else:
            yield (
                f"Compared record by record: {self.comparison.equal:,} are equal up to the first "
                f"difference: {self.comparison.different}"
            )
        if self.moved is not None:
            yield self.moved.describe()
