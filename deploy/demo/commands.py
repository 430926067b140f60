"""Runs this project's commands like a user, and shows their output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from connect.clock import Clock, Deadline
from deploy.brokers import GuardedProcess, ProcessFailed
from deploy.demo.mirror import installed_command
from deploy.demo.stopping import Stop

__all__ = ["Ran", "run_command"]

_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command. `lines`: its output without empty lines."""

    status: int
    lines: Sequence[str]
    seconds: float


def run_command(
    arguments: Sequence[str],
    log: Path,
    stop: Stop,
    clock: Clock,
    timeout_s: float,
    on_line: Callable[[str], None] = lambda line: None,
) -> Ran:
    """Run one of our commands with its arguments; its output goes to `log`.

    `on_line` receives each line of output. Raises `StopRequested` if a stop was requested, and
    `ProcessFailed` if the command takes longer than `timeout_s`; in both cases it is killed.
    """
    began, deadline = clock.monotonic(), Deadline(timeout_s, clock)
    shown = 0
    command = [str(installed_command(arguments[0])), *arguments[1:]]
    with GuardedProcess(command, log) as process:
        while True:
            running = process.running()
            lines = _lines(log, whole=running)
            for line in lines[shown:]:
                on_line(line)
            shown = len(lines)
            if not running:
                break
            stop.check()
            if deadline.expired():
                raise ProcessFailed(f"{arguments[0]} took longer than {timeout_s:g} s; see {log}")
            stop.event.wait(_TICK_S)
        status = process.poll()
    assert status is not None
    return Ran(status, lines, clock.monotonic() - began)


def _lines(log: Path, *, whole: bool) -> list[str]:
    """Return the log's lines. Unless `whole`, leave out an incomplete last line."""
    text = log.read_text(errors="replace")
    if whole:
        text = text[: text.rfind("\n") + 1]
    return [line.rstrip() for line in text.splitlines() if line.strip()]
