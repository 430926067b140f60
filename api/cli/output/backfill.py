"""Shows a backfill: its plan, its progress and its result. The progress is a bar on a terminal,
otherwise lines."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TextIO

from api.cli.output.durations import time_text
from api.cli.output.tables import table_printer
from connect.clock import SYSTEM_CLOCK, Clock
from connect.topic_partition import name_of
from connectors.mirror.backfill.progress import JobProgress
from connectors.mirror.backfill.scheduler import PartitionJob

__all__ = ["ProgressView", "print_plan", "print_result", "progress_text", "to_json"]

LINE_S = 10.0
"""Interval between progress lines when stderr is not a terminal."""

_BAR = 24
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


def size_text(size: float) -> str:
    """Format bytes in powers of 1000."""
    power = 0 if size < 1 else min(len(_SIZES) - 1, int(math.log10(size) / 3 + 1e-9))
    number = size / 1000**power
    return f"{number:.0f} {_SIZES[power]}" if power == 0 else f"{number:.1f} {_SIZES[power]}"


STARTING_S = 60.0
"""Time without progress until it is shown. Starting a Spark session and its first tasks takes
less."""


def progress_text(progress: JobProgress, now_ms: int) -> str:
    """Format one progress line: share, bytes, rate, and expected end in the machine's time zone."""
    total = progress.copied_bytes + progress.left_bytes
    parts = [
        f"{progress.share:4.0%}",
        f"{size_text(progress.copied_bytes)} of {size_text(total)}",
        f"{size_text(progress.left_bytes)} left",
        f"{size_text(progress.rate)}/s",
    ]
    if progress.left_s is None:
        starting = not progress.copied_bytes and progress.seconds < STARTING_S
        parts.append("starting" if starting else "no progress now")
    elif progress.left_offsets:
        arrival = datetime.fromtimestamp(now_ms / 1000 + progress.left_s)
        shown = arrival.strftime("%H:%M:%S" if progress.left_s < 86_400 else "%Y-%m-%d %H:%M")
        parts.append(f"{time_text(progress.left_s)} to go, done at {shown}")
    parts.append(f"{progress.done} of {progress.partitions} partitions done")
    if progress.failed:
        parts.append(f"{progress.failed} FAILED")
    if progress.lost:
        parts.append(f"{progress.lost} offsets LOST")
    return ", ".join(parts)


class ProgressView:
    """Shows the progress. Call `show` about once a second, and `end` before printing anything
    else."""

    def __init__(self, out: TextIO | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._out = sys.stderr if out is None else out
        self._clock = clock
        self._terminal = self._out.isatty()
        self._line_at = -math.inf
        self._open = False

    def show(self, progress: JobProgress) -> None:
        text = progress_text(progress, self._clock.now_ms())
        if self._terminal:
            full = round(_BAR * progress.share)
            bar = "#" * full + "." * (_BAR - full)
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[2K{f'[{bar}] {text}'[:width]}", end="", file=self._out, flush=True)
            self._open = True
        elif self._clock.monotonic() - self._line_at >= LINE_S:
            self._line_at = self._clock.monotonic()
            print(text, file=self._out, flush=True)

    def say(self, sentence: str) -> None:
        """Print a sentence on its own line."""
        self.end()
        print(sentence, file=self._out, flush=True)

    def end(self) -> None:
        """End the line of the progress bar."""
        if self._open:
            print(file=self._out, flush=True)
            self._open = False


def print_plan(
    jobs: Iterable[PartitionJob],
    missing: Sequence[str],
    warnings: Sequence[str],
    out: TextIO | None = None,
    output: str | None = None,
    title: str = "Backfill",
) -> None:
    """Print the partitions to copy, in order. `title`: the kind of the job."""
    printer = table_printer(out, output)
    now_ms = SYSTEM_CLOCK.now_ms()
    printer.table(
        f"{title}, most urgent first",
        ("source", "target", "from", "to", "bytes", "may lose records in", "note"),
        [
            (
                name_of(job.source),
                name_of(job.target),
                str(job.position),
                str(job.end),
                size_text(job.left_bytes),
                _loss(job, now_ms),
                _note(job),
            )
            for job in jobs
        ],
    )
    for topic in missing:
        printer.line(
            f"{topic} does not exist on the target: the {title.lower()} creates it as the flow "
            "would"
        )
    for warning in warnings:
        printer.line(f"warning: {warning}", "yellow")


def print_result(
    jobs: Sequence[PartitionJob],
    progress: JobProgress,
    stopped: bool,
    out: TextIO | None = None,
    output: str | None = None,
    title: str = "Backfill",
    after: str = " The flow continues after these records.",
) -> None:
    """Print the state of each partition, and a summary sentence. `after`: what follows it if
    everything was copied."""
    printer = table_printer(out, output)
    printer.table(
        title,
        ("source", "target", "state", "next", "records", "found", "lost", "note"),
        [
            (
                name_of(job.source),
                name_of(job.target),
                job.state.value,
                str(job.position),
                str(job.copied_records),
                str(job.found_records),
                str(job.lost),
                job.error or job.note,
            )
            for job in jobs
        ],
    )
    rate = progress.copied_bytes / max(progress.seconds, 1e-3)
    done = (
        f"{progress.copied_records} records, {size_text(progress.copied_bytes)} in "
        f"{time_text(progress.seconds)} ({size_text(rate)}/s)"
    )
    if stopped:
        printer.line(f"Stopped: {done}; start it again to continue.", "bold yellow")
    elif progress.failed:
        printer.line(f"{progress.failed} partitions could not be copied. {done}.", "bold red")
    else:
        printer.line(f"Done: {done}.{after}", "green")


def to_json(jobs: Sequence[PartitionJob], progress: JobProgress | None) -> dict[str, Any]:
    """Return the plan and progress as JSON values, without secrets."""
    found: dict[str, Any] = {"partitions": [_job_json(job) for job in jobs]}
    if progress is not None:
        found = {
            "copied_records": progress.copied_records,
            "copied_bytes": progress.copied_bytes,
            "left_bytes": progress.left_bytes,
            "bytes_per_second": round(progress.rate, 1),
            "seconds_left": None if progress.left_s is None else round(progress.left_s, 1),
            "seconds": round(progress.seconds, 3),
            "partitions_done": progress.done,
            "partitions_failed": progress.failed,
            **found,
        }
    return found


def _job_json(job: PartitionJob) -> dict[str, Any]:
    return {
        "topic": job.source[0],
        "partition": job.source[1],
        "target": job.target[0],
        "state": job.state.value,
        "begin": job.begin,
        "position": job.position,
        "end": job.end,
        "left_bytes": job.left_bytes,
        "copied_records": job.copied_records,
        "copied_bytes": job.copied_bytes,
        "found_records": job.found_records,
        "lost_offsets": job.lost,
        "loss_at_ms": None if math.isinf(job.loss_at_ms) else round(job.loss_at_ms),
        "note": job.note,
        "error": job.error,
    }


def _loss(job: PartitionJob, now_ms: int) -> str:
    if math.isinf(job.loss_at_ms):
        return ""
    return time_text(max(0.0, (job.loss_at_ms - now_ms) / 1000))


def _note(job: PartitionJob) -> str:
    found = f"{job.found_records} records were already on the target" if job.found_records else ""
    return "; ".join(text for text in (found, job.note) if text)
