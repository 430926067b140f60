"""The rows that the mirror, backfills and audits write into the history."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CopiedRow",
    "EventRow",
    "FlowTask",
    "HistoryRow",
    "JobRow",
    "JobState",
    "LagRow",
    "SampleRow",
    "flow_event",
]


@dataclass(frozen=True, slots=True)
class FlowTask:
    """The flow and task that wrote a row. A backfill or audit has task 0 and its own name as
    connector."""

    connector: str
    task: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """A row of `mirror_events`. `first` to `last` are the affected offsets on the cluster that
    `side` names."""

    kind: str
    topic: str
    partition: int
    target_topic: str
    action: str
    side: str | None
    first: int | None
    last: int | None
    records: int
    resume: int | None
    text: str


def flow_event(kind: str, action: str, text: str) -> EventRow:
    """Return the event of a flow as a whole, not of a partition."""
    return EventRow(kind, "", -1, "", action, None, None, None, 0, None, text)


@dataclass(frozen=True, slots=True)
class CopiedRow:
    """A row of `mirror_ranges`: source offsets `source_start` to `source_end` (exclusive) are on
    the target before its offset `target_end`."""

    topic: str
    partition: int
    target_topic: str
    source_start: int
    source_end: int
    target_end: int | None
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LagRow:
    topic: str
    partition: int
    target_topic: str
    lag_records: int | None
    lag_ms: int | None
    time_to_loss_ms: int | None


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A row of `mirror_samples`: one task as a whole, over the last `span_ms`.

    `records` and `bytes` were copied in this time. `lag_records` is the sum of its partitions,
    `lag_ms` the highest and `time_to_loss_ms` the lowest; None: not known, or none is expected.
    `latency_ms` is the mean of the partitions that moved.
    """

    span_ms: int
    partitions: int
    stuck: int
    lag_records: int
    lag_ms: int | None
    time_to_loss_ms: int | None
    records: int
    bytes: int
    latency_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The done and remaining work of a job: a backfill, an audit, an archive, a restore or a
    verification.

    `done` and `failed` count its parts: partitions, or ranges of an audit and a verification.
    `left_ms`: the expected time to its end; None: not known.
    """

    parts: int = 0
    done: int = 0
    failed: int = 0
    records: int = 0
    bytes: int = 0
    left_bytes: int = 0
    rate: float = 0.0
    left_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow(JobState):
    """A row of `mirror_jobs`: the progress of a job, the newest of its `job`.

    `state`: running, done, failed or stopped.
    """

    job: str
    kind: str
    state: str
    began_ms: int
    text: str


HistoryRow = EventRow | CopiedRow | LagRow | SampleRow | JobRow
