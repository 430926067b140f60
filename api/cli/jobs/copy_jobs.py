"""Options, exit codes and history rows of the commands that copy as a job:
`connect-mirror-backfill` and `connect-mirror-archive`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from api.cli.program import EXIT_FAILED, EXIT_OK, output_file, positive
from connect.config.sizes import parse_size

if TYPE_CHECKING:
    from connectors.mirror.backfill.job import JobOutcome
    from connectors.mirror.backfill.progress import JobProgress
    from connectors.mirror.history.jobs import JobHistory
    from connectors.mirror.history.rows import JobState

__all__ = [
    "EXIT_REFUSED",
    "EXIT_STOPPED",
    "JOB_EXIT_CODES",
    "OTHER_TOPICS",
    "PIECE_SECONDS",
    "add_job_options",
    "end_history",
    "exit_code",
    "job_state",
    "size_of",
]

JOB_EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 refused, 4 stopped, 78 wrong "
    "properties. Start it again to continue where it stopped."
)
EXIT_REFUSED = 3
EXIT_STOPPED = 4

OTHER_TOPICS = ", including topics that the flow does not copy (default: the flow's topics)"
"""The end of the help of `--topics`."""

PIECE_SECONDS = 10.0
"""Time limit for copying one piece. It is well below the time after which the lock of a killed job
expires."""


def size_of(text: str) -> float:
    """Parse a size in bytes, such as `50MB`, `1.5GiB/s` or `800000`, for argparse."""
    size = parse_size(text)
    if size is None:
        raise argparse.ArgumentTypeError(
            f"Invalid size {text}: use for example 50MB, 1.5GiB or 800000"
        )
    return size


def add_job_options(parser: argparse.ArgumentParser, piece_bytes: str, json: str) -> None:
    """Add the options of every job. `piece_bytes`: what to know of the size of a piece; `json`:
    when the file is written."""
    parser.add_argument(
        "--parallel",
        type=positive,
        metavar="N",
        help="number of pieces in parallel (default: as many as Spark has slots for)",
    )
    parser.add_argument(
        "--piece-bytes", type=size_of, metavar="BYTES", help=f"size of one piece{piece_bytes}"
    )
    parser.add_argument(
        "--plan", action="store_true", help="show what would be copied, and write nothing"
    )
    parser.add_argument(
        "--json",
        type=output_file,
        metavar="FILE",
        help=f"write the state of each partition to FILE {json}",
    )


def exit_code(outcome: JobOutcome) -> int:
    if outcome.stopped:
        return EXIT_STOPPED
    return EXIT_OK if outcome.complete else EXIT_FAILED


def job_state(progress: JobProgress) -> JobState:
    """Return the progress as the history keeps it."""
    from connectors.mirror.history.rows import JobState

    return JobState(
        parts=progress.partitions,
        done=progress.done,
        failed=progress.failed,
        records=progress.copied_records,
        bytes=progress.copied_bytes,
        left_bytes=progress.left_bytes,
        rate=progress.rate,
        left_ms=None if progress.left_s is None else round(progress.left_s * 1000),
    )


def end_history(history: JobHistory, outcome: JobOutcome) -> None:
    """Write the last row of a job that ran to its end or was stopped."""
    history.tell(job_state(outcome.progress))
    if outcome.stopped:
        history.end("stopped", "Start it again to continue")
    else:
        history.end("done" if outcome.complete else "failed")
