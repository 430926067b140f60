"""The JSON of the dashboard's requests below `/mirrors`.

Times are in seconds, `at_ms` in ms since 1970. null: not known, or (`time_to_loss_seconds`) no loss
is expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = [
    "ConnectorView",
    "Event",
    "FlowEvents",
    "FlowGroups",
    "FlowHeat",
    "FlowJobs",
    "FlowPartitions",
    "FlowSeries",
    "FlowSummary",
    "GroupPartition",
    "GroupReadiness",
    "Health",
    "Job",
    "LagSample",
    "Mirrors",
    "PartitionDetail",
    "PartitionView",
    "Point",
    "Range",
    "TaskView",
    "TopicHeat",
    "Viewer",
    "WorkerView",
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Health(StrEnum):
    """States of a flow, connector or partition; the worst one is shown.

    `ok`: copies, or is caught up. `paused`: by request. `limited`: a rate limit delays records.
    `lagging`: more than a minute behind. `unknown`: a worker does not answer, or nothing is known
    yet. `losing`: the source deletes uncopied records within four hours. `stuck`: makes no
    progress. `failed`: a connector or task has failed. `lost`: records were lost in the last day.
    """

    OK = "ok"
    PAUSED = "paused"
    LIMITED = "limited"
    LAGGING = "lagging"
    UNKNOWN = "unknown"
    LOSING = "losing"
    LOST = "lost"
    STUCK = "stuck"
    FAILED = "failed"


class Viewer(_Model):
    """The caller. `role`: viewer, operator or admin. `connectors`: whether this listener has
    Connect's REST calls, with which connectors are paused, restarted and configured."""

    user: str | None
    role: str
    connectors: bool


class TaskView(_Model):
    id: int
    state: str
    worker_id: str
    health: Health
    partitions: int
    stuck: int
    trace: str | None


class ConnectorView(_Model):
    """`kind`: the class without its package."""

    name: str
    kind: str
    state: str
    worker_id: str
    health: Health
    trace: str | None
    tasks: Sequence[TaskView]


class WorkerView(_Model):
    """A worker that has connectors or tasks of the flow. `problem`: why it cannot be asked."""

    id: str
    connectors: int
    tasks: int
    problem: str | None


class FlowSummary(_Model):
    """A flow at a glance. `why` explains `health`. Lags: the sum of records and bytes, the highest
    age; `time_to_loss_seconds` is the lowest. Rates are those of the last minute in the history."""

    name: str
    source: str
    target: str
    health: Health
    why: str
    partitions: int
    stuck: int
    lagging: int
    limited: int
    lag_records: int
    lag_bytes: int
    lag_seconds: float | None
    time_to_loss_seconds: float | None
    records_per_second: float | None
    bytes_per_second: float | None
    latency_ms: float | None
    losses: int
    lost_records: int
    connectors: Sequence[ConnectorView]
    workers: Sequence[WorkerView]
    history: str | None


class Mirrors(_Model):
    """`at_ms`: when the workers were asked."""

    at_ms: int
    viewer: Viewer
    flows: Sequence[FlowSummary]


class PartitionView(_Model):
    topic: str
    partition: int
    health: Health
    records: int | None
    bytes: int | None
    seconds: float | None
    time_to_loss_seconds: float | None
    limited_by: str | None
    error: str | None
    connector: str
    task: int
    worker_id: str


class FlowPartitions(_Model):
    """The first `limit` of the `total` partitions that match, in the order asked for."""

    flow: str
    total: int
    partitions: Sequence[PartitionView]


class TopicHeat(_Model):
    """`levels` has a character per partition, from partition `first` on: 0 caught up, 1 to 5
    behind by less than 10 s, 1 min, 10 min, 1 h, or more; 6 losing records within four hours;
    7 stuck; `-` not known."""

    topic: str
    health: Health
    partitions: int
    records: int
    first: int
    levels: str


class FlowHeat(_Model):
    """The topics with the worst partitions first. `omitted_topics` and `omitted_partitions` are
    beyond `cells`."""

    flow: str
    topics: Sequence[TopicHeat]
    omitted_topics: int
    omitted_partitions: int


class Event(_Model):
    at_ms: int
    kind: str
    action: str
    topic: str
    partition: int | None
    side: str | None
    first: int | None
    last: int | None
    records: int
    text: str
    process: str


class FlowEvents(_Model):
    flow: str
    events: Sequence[Event]


class Range(_Model):
    at_ms: int
    source_start: int
    source_end: int
    target_end: int | None
    records: int
    bytes: int


class LagSample(_Model):
    at_ms: int
    records: int | None
    seconds: float | None


class PartitionDetail(_Model):
    """One partition: its state, a remedy, and its last ranges, lags and events. `state`,
    `position`, `high_watermark`, `log_start` and `target` are those of `details`."""

    flow: str
    partition: PartitionView
    remedy: str | None
    details: dict[str, Any]
    ranges: Sequence[Range]
    lags: Sequence[LagSample]
    events: Sequence[Event]


class Point(_Model):
    """Means and extremes of one step."""

    at_ms: int
    records_per_second: float
    bytes_per_second: float
    latency_ms: float | None
    lag_records: int
    lag_seconds: float | None
    time_to_loss_seconds: float | None
    stuck: int


class FlowSeries(_Model):
    flow: str
    start_ms: int
    end_ms: int
    step_ms: int
    points: Sequence[Point]


class Job(_Model):
    """A backfill or an audit. `left_seconds`: the expected time to its end. A running job that has
    not written for a minute has the state `silent`."""

    job: str
    kind: str
    state: str
    began_ms: int
    at_ms: int
    parts: int
    done: int
    failed: int
    records: int
    bytes: int
    left_bytes: int
    rate: float
    left_seconds: float | None
    text: str
    process: str


class FlowJobs(_Model):
    flow: str
    jobs: Sequence[Job]


class GroupPartition(_Model):
    """`offset` is the group's on the source; `new_offset` the same place on the target; `again`
    the records that it would read twice; `committed` its offset on the target now."""

    topic: str
    partition: int
    target_topic: str
    offset: int
    new_offset: int | None
    again: int | None
    committed: int | None


class GroupReadiness(_Model):
    """`ready`: each of its partitions has a place on the target. `synced`: it is committed there,
    too. `exact`: it would read no record twice, also none that is copied later. `why`: what is
    missing. `again`: the records on the target that it would read twice, null: not known."""

    group: str
    ready: bool
    synced: bool
    exact: bool
    why: str | None
    again: int | None
    partitions: Sequence[GroupPartition]


class FlowGroups(_Model):
    """`live`: from the groups' offsets on the source, else from the checkpoints. `at_ms`: when."""

    flow: str
    at_ms: int
    live: bool
    problem: str | None
    groups: Sequence[GroupReadiness]
