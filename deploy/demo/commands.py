"""Runs this project's commands as a person would type them, and shows what they print."""

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
    """What became of a command. `lines`: its output, without empty ones."""

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
    """Run `arguments`, the first of which is one of our commands; its output goes to `log`.

    `on_line` gets each line as it comes. Raises `StopRequested` once the end was asked for, and
    `ProcessFailed` when it takes longer than `timeout_s`; it is killed in both cases.
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
    """The log's lines; while it grows, only those that have an end."""
    text = log.read_text(errors="replace")
    if whole:
        text = text[: text.rfind("\n") + 1]
    return [line.rstrip() for line in text.splitlines() if line.strip()]
