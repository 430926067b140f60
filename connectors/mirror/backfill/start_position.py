"""Decides at which offset the backfill of a partition starts, or why it is refused. Pure.

Three facts show which records were copied before: the flow's stored offset; the offset map, which
is written first and so may cover more; and the target log, because a killed backfill may have
copied records after the map's end. Such records equal the source's next records one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from connect.protocol.messages import TopicPartition
from connectors.mirror.backfill.errors import BackfillRefused, LaterRecordsThere, WouldLeaveGap
from connectors.mirror.offsets.offset_map_pages import MapPage, OffsetMap

__all__ = ["Begin", "MapEnd", "PartitionLogs", "choose_begin", "known_of"]


@dataclass(frozen=True, slots=True)
class MapEnd:
    """The range of a partition that the offset map covers: source offsets from `first` to before
    `reach`. The copies end before target offset `target_end`."""

    first: int
    reach: int
    target_end: int


@dataclass(frozen=True, slots=True)
class PartitionLogs:
    """Both logs of a partition: first offset and end offset (exclusive) for consumers. `stored`:
    the flow's stored offset."""

    source: TopicPartition
    target: TopicPartition
    source_start: int
    source_end: int
    target_start: int = 0
    target_end: int = 0
    stored: int | None = None
    known: MapEnd | None = None

    @property
    def name(self) -> str:
        return f"{self.source[0]}-{self.source[1]}"

    @property
    def target_name(self) -> str:
        return f"{self.target[0]}-{self.target[1]}"


@dataclass(frozen=True, slots=True)
class Begin:
    """Start at source offset `position`. `look_from`: the target offset from which on the target
    may already have the source's next records, so compare before copying. `unsure`: it is unknown
    whether records after `position` were copied, so some may be copied again. `lost`: the number of
    source offsets that were deleted before they were copied. `note`: a note for the user."""

    position: int
    look_from: int | None = None
    unsure: bool = False
    lost: int = 0
    note: str = ""


def known_of(pages: Iterable[MapPage]) -> MapEnd | None:
    """Return the range of a partition that its pages cover."""
    whole = OffsetMap(pages)
    segments, reach = whole.segments, whole.end_source
    if reach is None:
        return None
    last = segments[-1]
    return MapEnd(segments[0].source, reach, last.target + last.length)


def choose_begin(logs: PartitionLogs, start: int | None) -> Begin:
    """Choose where the backfill starts. Raises `BackfillRefused`.

    `start`: the requested first source offset; None: the flow's stored offset, or the log start if
    there is none.
    """
    position, target_from = _copied_before(logs)
    if position is None:
        begin = max(logs.source_start, start or 0)
        if logs.target_end > logs.target_start:
            return Begin(begin, look_from=logs.target_start)
        return Begin(begin)
    if position > logs.source_end:
        raise BackfillRefused(
            f"{logs.name}: the next offset to copy is {position}, but the source log ends at "
            f"{logs.source_end}: the log was truncated, or the topic was re-created. Start the "
            "flow, which then copies from the start, or reset its stored offset"
        )
    if start is not None:
        _check_start(logs, position, start)
    lost = max(0, logs.source_start - position)
    note = _note(logs, lost, position)
    begin = max(position, logs.source_start)
    if target_from is None:
        return Begin(begin, unsure=logs.target_end > logs.target_start, lost=lost, note=note)
    if lost:
        return Begin(begin, lost=lost, note=note)
    look = target_from if logs.target_end > target_from else None
    return Begin(begin, look_from=look, note=note)


def _copied_before(logs: PartitionLogs) -> tuple[int | None, int | None]:
    """Return the source offset to continue at, and the target offset expected for it; None if
    unknown."""
    known = logs.known
    if known is None or known.target_end > logs.target_end:
        # There is no map, or it describes a target topic that was deleted since.
        return logs.stored, None
    if logs.stored is None or known.reach >= logs.stored:
        return known.reach, known.target_end
    # Another process copied from the map's end to the stored offset.
    return logs.stored, None


def _check_start(logs: PartitionLogs, position: int, start: int) -> None:
    if start > position and start > logs.source_start:
        raise WouldLeaveGap(
            f"{logs.name}: the flow continues at offset {position}, so the records between it "
            f"and offset {start} would never be copied. Omit --from and --since, or reset the "
            "flow's stored offset"
        )
    first = max(start, logs.source_start)
    if first < position and (logs.known is None or logs.known.first > first):
        what = (
            f"offsets {first} to {position - 1} precede it"
            if logs.known is None
            else f"offsets {first} to {logs.known.first - 1} were not copied before it started"
        )
        raise LaterRecordsThere(
            f"{logs.name}: the flow's stored offset is {position}, and {what}: if they were "
            f"copied now, they would follow later records in {logs.target_name}. Omit --from and "
            "--since to continue at the stored offset; to copy the history too, delete the copy "
            "and reset the flow's stored offset"
        )


def _note(logs: PartitionLogs, lost: int, position: int) -> str:
    if lost:
        return (
            f"offsets {position} to {logs.source_start - 1} were deleted from the source before "
            "they were copied"
        )
    if logs.known is not None and logs.known.first > logs.source_start:
        return (
            f"offsets {logs.source_start} to {logs.known.first - 1} were not copied: the flow "
            "started after them"
        )
    return ""
