"""The details of a flow that `connect-mirror status` shows besides its lag: rates, losses, recent
events, jobs and whether groups could move. They are read from the pages of the dashboard; pages
that do not answer are named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from api.cli.connect_mirror.running import RunningMirror
from connect.errors import ConnectError

__all__ = ["EventLine", "FlowDetails", "GroupLine", "JobLine", "flow_details"]

HOURS = 24
EVENTS, JOBS = 10, 5


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event of the flow's history."""

    at_ms: int
    kind: str
    action: str
    partition: str
    text: str


@dataclass(frozen=True, slots=True)
class JobLine:
    """A backfill, an audit or an archive. `left_s`: the expected time to its end."""

    kind: str
    state: str
    parts: int
    done: int
    failed: int
    left_s: float | None
    text: str


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A consumer group. `again`: the records that it would read twice; None: not known."""

    group: str
    ready: bool
    synced: bool
    again: int | None
    why: str | None


@dataclass(slots=True)
class FlowDetails:
    """Rates are those of the last minute, None if nothing was copied then; losses and events those
    of the last day. `unknown`: the pages that did not answer, and why."""

    records_per_second: float | None = None
    bytes_per_second: float | None = None
    latency_ms: float | None = None
    losses: int = 0
    lost_records: int = 0
    events: list[EventLine] = field(default_factory=list)
    jobs: list[JobLine] = field(default_factory=list)
    groups: list[GroupLine] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def flow_details(mirror: RunningMirror, flow: str) -> FlowDetails:
    """Ask for all that is known of a flow. Never raises: what is not known is named."""
    found = FlowDetails()
    for name, path, take in (
        ("rates and losses", "", _take_summary),
        ("events", f"events?hours={HOURS}&limit={EVENTS}", _take_events),
        ("jobs", f"jobs?limit={JOBS}", _take_jobs),
        ("groups", "groups", _take_groups),
    ):
        try:
            page = mirror.flow_page(flow, path) if path else _summary(mirror, flow)
            take(found, page)
        except ConnectError as error:
            found.unknown.append(f"{name} are not known: {error}")
    return found


def _summary(mirror: RunningMirror, flow: str) -> dict[str, Any]:
    for each in mirror.flows():
        if each["name"] == flow:
            return each
    raise ConnectError(f"{mirror.url}/mirrors has no flow {flow}")


def _take_summary(found: FlowDetails, page: dict[str, Any]) -> None:
    found.records_per_second = page["records_per_second"]
    found.bytes_per_second = page["bytes_per_second"]
    found.latency_ms = page["latency_ms"]
    found.losses = page["losses"]
    found.lost_records = page["lost_records"]
    if page["history"] is not None:
        found.unknown.append(f"rates, losses and events are not known: {page['history']}")


def _take_events(found: FlowDetails, page: dict[str, Any]) -> None:
    for each in page["events"]:
        number = each["partition"]
        partition = each["topic"] if number is None else f"{each['topic']}-{number}"
        found.events.append(
            EventLine(each["at_ms"], each["kind"], each["action"], partition, each["text"])
        )


def _take_jobs(found: FlowDetails, page: dict[str, Any]) -> None:
    for each in page["jobs"]:
        found.jobs.append(
            JobLine(
                each["kind"],
                each["state"],
                each["parts"],
                each["done"],
                each["failed"],
                each["left_seconds"],
                each["text"],
            )
        )


def _take_groups(found: FlowDetails, page: dict[str, Any]) -> None:
    if page["problem"] is not None:
        found.unknown.append(f"groups are not known: {page['problem']}")
    for each in page["groups"]:
        found.groups.append(
            GroupLine(each["group"], each["ready"], each["synced"], each["again"], each["why"])
        )
