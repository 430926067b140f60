"""REST endpoints of the flows for the dashboard, below `/mirrors`. Any worker answers for the whole
group.

Answers have an ETag: a page that asks again with `If-None-Match` gets 304 while nothing changed.
Lists have a limit, and are sorted and cut here.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from api.dashboard.models import (
    Event,
    FlowEvents,
    FlowGroups,
    FlowHeat,
    FlowJobs,
    FlowPartitions,
    FlowSeries,
    FlowSummary,
    Job,
    LagSample,
    Mirrors,
    PartitionDetail,
    Point,
    Range,
    Viewer,
)
from api.dashboard.readiness import readiness
from api.dashboard.remedies import remedy
from api.dashboard.summaries import LOSING_MS, heat, partition_view, partitions_of, summary, top
from api.dashboard.views import Board, MirrorView
from api.rest.authentication import ROLE, USER
from api.rest.dependencies import FAILURES
from api.rest.errors import RestError
from api.rest.models import json_bytes
from api.rest.roles import Role
from connect.clock import seconds_of
from connect.errors import ConfigError

__all__ = ["router"]

log = logging.getLogger(__name__)

router = APIRouter(prefix="/mirrors", responses=FAILURES, tags=["mirrors"])

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_HISTORY_FRESH_S = 5.0
_GROUPS_FRESH_S = 30.0
_RECENT_MS = 60_000
_SILENT_MS = 60_000
_DETAIL_ROWS = 50


def _board(request: Request) -> Board:
    board: Board = request.app.state.board
    return board


BoardDep = Annotated[Board, Depends(_board)]


def _view(board: BoardDep, flow: Annotated[str, Path()]) -> MirrorView:
    views = board.views()
    found = views.get(flow)
    if found is None:
        known = ", ".join(sorted(views)) or "none"
        raise RestError(404, f"There is no flow {flow}; flows: {known}")
    return found


ViewDep = Annotated[MirrorView, Depends(_view)]
Limit = Annotated[int, Query(ge=1, le=2_000)]
Hours = Annotated[float, Query(gt=0, le=24 * 366)]


def _tagged(request: Request, value: object) -> Response:
    """The JSON of a model, or 304 if the caller has it."""
    body = json_bytes(value)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


@router.get("", response_model=Mirrors)
def mirrors(request: Request, board: BoardDep) -> Response:
    """All flows at a glance, and what the caller may do."""
    scope = request.scope
    connectors: bool = request.app.state.connectors
    role: Role = scope.get(ROLE, Role.ADMIN) if connectors else Role.VIEWER
    user = scope.get(USER)
    return _tagged(
        request,
        Mirrors(
            at_ms=board.clock.now_ms() // 1000 * 1000,
            viewer=Viewer(user=user, role=role.name.lower(), connectors=connectors),
            flows=[_summary(board, view) for _, view in sorted(board.views().items())],
        ),
    )


def _summary(board: Board, view: MirrorView) -> FlowSummary:
    def recent() -> tuple[dict[str, Any] | None, list[dict[str, Any]], str | None]:
        # SQLAlchemy takes a tenth of a worker's start, and is loaded with the first page instead.
        from connectors.mirror.history import queries

        now_ms = board.clock.now_ms()
        try:
            found = queries.flow_rates(view.history, view.source, view.target, now_ms - _RECENT_MS)
            losses = queries.flow_losses(view.history, view.source, view.target, now_ms - _DAY_MS)
        except ConfigError as error:
            return None, [], str(error)
        return found, losses, None

    rates, losses, problem = board.once((view.name, "recent"), _HISTORY_FRESH_S, recent)
    return summary(view, board.seen(view), rates, losses, problem)


@router.get("/{flow}/partitions", response_model=FlowPartitions)
def partitions(
    request: Request,
    board: BoardDep,
    view: ViewDep,
    sort: Literal["worst", "loss", "records", "seconds", "topic"] = "worst",
    limit: Limit = 100,
    contains: str = "",
) -> Response:
    """The first partitions in this order whose `topic-partition` contains a text. `sort=loss` has
    only partitions whose loss is expected."""
    found = top(view.name, board.seen(view), sort, limit, contains, losing=sort == "loss")
    return _tagged(request, found)


@router.get("/{flow}/heat", response_model=FlowHeat)
def heat_map(
    request: Request,
    board: BoardDep,
    view: ViewDep,
    cells: Annotated[int, Query(ge=1, le=100_000)] = 10_000,
) -> Response:
    """How far each partition is behind, as a character for each, by topic."""
    return _tagged(request, heat(view.name, board.seen(view), cells))


@router.get("/{flow}/partitions/{topic}/{partition}", response_model=PartitionDetail)
def partition_detail(
    request: Request,
    board: BoardDep,
    view: ViewDep,
    topic: Annotated[str, Path()],
    partition: Annotated[int, Path(ge=0, le=2**31 - 1)],
) -> Response:
    """One partition: its error with a remedy, its last copied ranges, lags and events."""
    from connectors.mirror.history import queries

    for found in partitions_of(board.seen(view)):
        if (found[2].topic, found[2].partition) == (topic, partition):
            break
    else:
        raise RestError(404, f"No task of {view.name} copies {topic}-{partition}")
    of = (view.history, view.source, view.target)
    since = board.clock.now_ms() - _DAY_MS
    each, shown = found[2], partition_view(found)
    losing = each.time_to_loss_ms is not None and each.time_to_loss_ms < LOSING_MS
    try:
        ranges = queries.partition_ranges(*of, topic, partition, _DETAIL_ROWS)
        lags = queries.partition_lags(*of, topic, partition, since, 500)
        events = queries.flow_events(*of, 0, _DETAIL_ROWS, (topic, partition))
    except ConfigError as error:
        log.debug("The history of %s is not readable: %s", view.name, error)
        ranges, lags, events = [], [], []
    return _tagged(
        request,
        PartitionDetail(
            flow=view.name,
            partition=shown,
            remedy=remedy(each.error, shown.limited_by, losing),
            details=dict(each.details),
            ranges=[Range(**{key: row[key] for key in Range.model_fields}) for row in ranges],
            lags=[
                LagSample(
                    at_ms=row["at_ms"],
                    records=row["lag_records"],
                    seconds=seconds_of(row["lag_ms"]),
                )
                for row in reversed(lags)
            ],
            events=[_event(row) for row in events],
        ),
    )


@router.get("/{flow}/series", response_model=FlowSeries)
def series(
    request: Request,
    board: BoardDep,
    view: ViewDep,
    hours: Hours = 24,
    points: Annotated[int, Query(ge=1, le=2_000)] = 300,
) -> Response:
    """Rate, lag and latency over the last hours, from the history."""
    from connectors.mirror.history import queries

    end = board.clock.now_ms() // 10_000 * 10_000
    start = end - round(hours * _HOUR_MS)
    step, rows = queries.flow_series(view.history, view.source, view.target, start, end, points)
    return _tagged(
        request,
        FlowSeries(
            flow=view.name,
            start_ms=start,
            end_ms=end,
            step_ms=step,
            points=[
                Point(
                    at_ms=row["at_ms"],
                    records_per_second=row["records"],
                    bytes_per_second=row["bytes"],
                    latency_ms=row["latency_ms"],
                    lag_records=row["lag_records"],
                    lag_seconds=seconds_of(row["lag_ms"]),
                    time_to_loss_seconds=seconds_of(row["time_to_loss_ms"]),
                    stuck=row["stuck"],
                )
                for row in rows
            ],
        ),
    )


@router.get("/{flow}/events", response_model=FlowEvents)
def events(
    request: Request, board: BoardDep, view: ViewDep, hours: Hours = 168, limit: Limit = 200
) -> Response:
    """The newest events of the history, newest first."""
    from connectors.mirror.history import queries

    since = board.clock.now_ms() - round(hours * _HOUR_MS)
    rows = queries.flow_events(view.history, view.source, view.target, since, limit)
    return _tagged(request, FlowEvents(flow=view.name, events=[_event(row) for row in rows]))


def _event(row: dict[str, Any]) -> Event:
    whole = row["partition"] < 0
    return Event(
        **{key: row[key] for key in Event.model_fields if key != "partition"},
        partition=None if whole else row["partition"],
    )


@router.get("/{flow}/jobs", response_model=FlowJobs)
def jobs(request: Request, board: BoardDep, view: ViewDep, limit: Limit = 20) -> Response:
    """The newest backfills, audits, archives and restores, newest first, with their progress."""
    from connectors.mirror.history import queries

    now_ms = board.clock.now_ms()
    rows = queries.flow_jobs(view.history, view.source, view.target, limit)
    return _tagged(request, FlowJobs(flow=view.name, jobs=[_job(row, now_ms) for row in rows]))


def _job(row: dict[str, Any], now_ms: int) -> Job:
    silent = row["state"] == "running" and now_ms - row["at_ms"] > _SILENT_MS
    own = {key: row[key] for key in Job.model_fields if key in row and key != "state"}
    return Job(
        **own,
        state="silent" if silent else row["state"],
        left_seconds=seconds_of(row["left_ms"]),
    )


@router.get("/{flow}/groups", response_model=FlowGroups)
def groups(request: Request, board: BoardDep, view: ViewDep) -> Response:
    """Whether each consumer group could move to the target now: its exact place there, and what it
    would read again. Both clusters are asked, at most every 30 s."""
    if not view.properties:
        raise RestError(409, f"The properties of {view.name} are not known on this worker")
    found = board.once(
        (view.name, "groups"), _GROUPS_FRESH_S, lambda: readiness(view.name, view.properties)
    )
    return _tagged(request, found)
