"""`connect-mirror status`: the state of a running mirror, once or live.

Exit codes: 0 everything is healthy, 1 no mirror answers, 3 something is not healthy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from api.cli.connect_mirror.flow_details import FlowDetails, flow_details
from api.cli.connect_mirror.running import RunningMirror, add_url_option, listener_url
from api.cli.output.formats import is_document, print_document, print_result
from api.cli.program import EXIT_DIFFERENT, EXIT_OK
from connect.errors import ConnectError

__all__ = ["FlowStatus", "MirrorStatus", "add_options", "look", "run"]

WATCH_S = 2.0


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not healthy. `subject`: a connector, a task or a partition."""

    subject: str
    state: str
    cause: str


@dataclass(frozen=True, slots=True)
class LaggingPartition:
    """A partition with its lag. None: not known; for `time_to_loss_s` also: no loss is expected."""

    topic: str
    partition: int
    records: int | None
    seconds: float | None
    time_to_loss_s: float | None
    error: str | None


@dataclass(slots=True)
class FlowStatus:
    """One flow. Lags are those of the whole group of workers, as far as they answer. `paused`: a
    connector was paused or stopped by request."""

    flow: str
    healthy: bool = True
    connectors: int = 0
    tasks: int = 0
    running_tasks: int = 0
    paused: bool = False
    partitions: list[LaggingPartition] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    details: FlowDetails = field(default_factory=FlowDetails)

    @property
    def lag_records(self) -> int:
        return sum(each.records or 0 for each in self.partitions)

    @property
    def lag_seconds(self) -> float | None:
        return max((p.seconds for p in self.partitions if p.seconds is not None), default=None)

    @property
    def time_to_loss_s(self) -> float | None:
        known = [p.time_to_loss_s for p in self.partitions if p.time_to_loss_s is not None]
        return min(known, default=None)

    def document(self) -> dict[str, Any]:
        """Return plain values for JSON and YAML."""
        return {
            **asdict(self),
            "lag_records": self.lag_records,
            "lag_seconds": self.lag_seconds,
            "time_to_loss_s": self.time_to_loss_s,
        }


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """Everything that one process of the mirror knows. `message`: its own summary."""

    url: str
    message: str
    flows: Sequence[FlowStatus]

    @property
    def healthy(self) -> bool:
        return all(flow.healthy for flow in self.flows)

    def document(self) -> dict[str, Any]:
        """Return plain values for JSON and YAML."""
        return {
            "url": self.url,
            "healthy": self.healthy,
            "message": self.message,
            "flows": [flow.document() for flow in self.flows],
        }


def add_options(parser: argparse.ArgumentParser) -> None:
    add_url_option(parser)
    parser.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=WATCH_S,
        metavar="SECONDS",
        help=f"show it live, renewed every {WATCH_S:g} seconds by default, until Ctrl-C",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the status. Returns the exit code. Raises `ConnectError` if no mirror answers."""
    mirror = RunningMirror(_url(arguments))
    if arguments.watch is not None:
        return _watch(mirror, arguments)
    status = look(mirror, arguments.flow)
    from api.cli.output.status import print_status

    print_result(arguments, status.document, lambda output: print_status(status, output))
    return EXIT_OK if status.healthy else EXIT_DIFFERENT


def _url(arguments: argparse.Namespace) -> str:
    if arguments.url is not None:
        return str(arguments.url)
    from connectors.mirrormaker.flow_lookup import load_file

    return listener_url(load_file(arguments.config))


def _watch(mirror: RunningMirror, arguments: argparse.Namespace) -> int:
    from api.cli.output.status import LiveStatus, print_status
    from api.cli.processes.stop_signals import StopSignal

    stop = StopSignal()
    interval = max(0.1, arguments.watch)
    status = look(mirror, arguments.flow)
    if is_document(arguments) or not sys.stdout.isatty():
        while True:
            if is_document(arguments):
                print_document(status.document(), arguments.output)
            else:
                print_status(status, arguments.output)
            sys.stdout.flush()
            if stop.wait(interval):
                return EXIT_OK
            status = look(mirror, arguments.flow)
    with LiveStatus() as view:
        view.show(status)
        while not stop.wait(interval):
            try:
                view.show(look(mirror, arguments.flow))
            except ConnectError as error:
                view.say(str(error))
    return EXIT_OK


def look(mirror: RunningMirror, flow: str | None = None) -> MirrorStatus:
    """Ask a mirror for all its flows, or for one. Raises `ConnectError`."""
    health = mirror.health()
    flows: dict[str, FlowStatus] = {}
    for connector in health.get("connectors", ()):
        name = connector.get("flow", "")
        if flow is None or flow.replace(" ", "") in (name, name.replace("->", ":", 1)):
            _add_connector(flows.setdefault(name, FlowStatus(name)), connector)
    if flow is not None and not flows:
        known = ", ".join({each.get("flow", "") for each in health.get("connectors", ())})
        raise ConnectError(f"The mirror at {mirror.url} has no flow {flow}; it has {known}")
    for name, status in flows.items():
        if name:
            _add_lag(status, mirror.lag(name))
            status.details = flow_details(mirror, name)
    return MirrorStatus(mirror.url, str(health.get("message", "")), list(flows.values()))


def _add_connector(flow: FlowStatus, connector: dict[str, Any]) -> None:
    tasks = connector["tasks"]
    flow.connectors += 1
    flow.tasks += len(tasks)
    flow.running_tasks += sum(task["state"] == "RUNNING" for task in tasks)
    flow.paused = flow.paused or connector["state"] in ("PAUSED", "STOPPED")
    flow.healthy = flow.healthy and connector["healthy"]
    name = connector["name"]
    if connector["state"] not in ("RUNNING", "PAUSED", "STOPPED") or connector.get("trace"):
        flow.problems.append(Problem(name, connector["state"], _first_line(connector)))
    for task in tasks:
        if task["state"] not in ("RUNNING", "PAUSED", "STOPPED") or task.get("trace"):
            subject = f"{name} task {task['id']}"
            flow.problems.append(Problem(subject, task["state"], _first_line(task)))


def _add_lag(flow: FlowStatus, lag: dict[str, Any]) -> None:
    for each in lag["partitions"]:
        flow.partitions.append(
            LaggingPartition(
                each["topic"],
                each["partition"],
                each["records"],
                each["seconds"],
                each["time_to_loss_seconds"],
                each["error"],
            )
        )
        if each["error"] is not None:
            flow.healthy = False
            subject = f"{each['topic']}-{each['partition']}"
            flow.problems.append(Problem(subject, "stuck", each["error"]))
    flow.unknown += [each["reason"] for each in lag["incomplete"]]


def _first_line(entity: dict[str, Any]) -> str:
    trace = str(entity.get("trace") or "")
    return trace.splitlines()[0] if trace else ""
