"""Shows the verification of an archive: a bar on a terminal, rows of history, files that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from api.cli.output.read_progress import ReadProgress
from connect.clock import SYSTEM_CLOCK, Clock
from connectors.archive.ledger import ArchivedRange
from connectors.mirror.history.jobs import JobHistory, reading_state
from connectors.mirror.history.rows import JobState

if TYPE_CHECKING:
    from connectors.archive.verify import VerifiedRange

__all__ = ["show_verified"]


def show_verified(
    results: Iterable[VerifiedRange],
    ranges: Sequence[ArchivedRange],
    told: Callable[[ArchivedRange], str],
    history: JobHistory,
    clock: Clock = SYSTEM_CLOCK,
) -> int:
    """Show the results of these ranges, and those that differ, as they come. `told`: where the
    records of a range are. Returns how many differ."""
    found: list[VerifiedRange] = []
    began = clock.monotonic()
    history.tell(_state(ranges, found, 0.0))
    with ReadProgress("Verifying", {_key(each): each.bytes for each in ranges}) as progress:
        for result in results:
            found.append(result)
            if result.problem is not None:
                print(f"{told(result.range)}: {result.problem}", flush=True)
            progress.note(_key(result.range))
            history.tell(_state(ranges, found, clock.monotonic() - began))
    wrong = _wrong(found)
    if wrong:
        history.end("failed", f"{wrong} of {len(ranges)} ranges differ from the ledger")
    else:
        history.end("done", "All ranges are as the ledger says")
    return wrong


def _state(
    ranges: Sequence[ArchivedRange], found: Sequence[VerifiedRange], seconds: float
) -> JobState:
    return reading_state(
        parts=len(ranges),
        done=len(found),
        failed=_wrong(found),
        read=sum(each.range.bytes for each in found),
        planned=sum(each.bytes for each in ranges),
        seconds=seconds,
        records=sum(each.range.records for each in found),
    )


def _wrong(found: Sequence[VerifiedRange]) -> int:
    return sum(each.problem is not None for each in found)


def _key(of: ArchivedRange) -> tuple[str, int, int]:
    return of.topic, of.partition, of.start
