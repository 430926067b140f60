"""What the benchmarks measured, as values that go to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["CopyResult", "IdleResult", "LatencyResult", "Results", "StartResult"]


@dataclass(frozen=True, slots=True)
class CopyResult:
    """One copy of one flow by one system. The steady part is the time in which the copy went from
    10 % to 90 % of its records; `..._cores` are CPU seconds per second within it.

    `rss_mib`: the most that was resident. `first_record_s`: from the launch. `copy_s`: from the
    first record to the last. `cpu_s`: of the mirror from its launch to the last record.
    `extra_records`: copied twice. `verified`: keys, values, headers, timestamps and order of all
    records were compared with the source's.
    """

    flow: str
    system: str
    round: int
    records: int
    value_bytes: float
    steady_rate: float
    cpu_us_per_record: float
    mirror_cores: float
    broker_cores: float
    other_cores: float
    rss_mib: float
    first_record_s: float
    copy_s: float
    cpu_s: float
    stop_s: float
    extra_records: int
    verified: bool = False

    @property
    def launch_rate(self) -> float:
        """Records per second from the launch to the last record."""
        return self.records / (self.first_record_s + self.copy_s)


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """End to end, in ms: from before a record is produced to the source, to when a consumer of the
    target has it. System `none`: the consumer reads the source itself."""

    system: str
    round: int
    rate: int
    records: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    mirror_cores: float


@dataclass(frozen=True, slots=True)
class StartResult:
    """Seconds from launch to the first record at the target."""

    system: str
    round: int
    first_record_s: float


@dataclass(frozen=True, slots=True)
class IdleResult:
    """A mirror of `partitions` partitions in which nothing happens. `ready_s`: from the launch
    until the last partition of every topic existed at the target and had its record."""

    system: str
    partitions: int
    ready_s: float
    percent_of_core: float
    rss_mib: float


@dataclass(slots=True)
class Results:
    """All that was measured. `machine` describes where and when."""

    machine: dict[str, str] = field(default_factory=dict)
    copies: list[CopyResult] = field(default_factory=list)
    latencies: list[LatencyResult] = field(default_factory=list)
    starts: list[StartResult] = field(default_factory=list)
    idles: list[IdleResult] = field(default_factory=list)

    def merged(self, older: Results, finished: Iterable[str]) -> Results:
        """What was measured now of the flows that are finished, and what `older` has of others."""
        new = set(finished)
        return Results(
            self.machine,
            [row for row in older.copies if row.flow not in new]
            + [row for row in self.copies if row.flow in new],
            self._latencies(older),
            self.starts if "start" in new else older.starts,
            self.idles if "idle" in new else older.idles,
        )

    def _latencies(self, older: Results) -> list[LatencyResult]:
        """Those of now, and what `older` has of other systems."""
        systems = {row.system for row in self.latencies}
        return [row for row in older.latencies if row.system not in systems] + self.latencies

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        """Raises `OSError`, and `ValueError` or `TypeError` for a file that is none of ours."""
        data = json.loads(path.read_text())
        return cls(
            data["machine"],
            [CopyResult(**row) for row in data["copies"]],
            [LatencyResult(**row) for row in data["latencies"]],
            [StartResult(**row) for row in data["starts"]],
            [IdleResult(**row) for row in data["idles"]],
        )
