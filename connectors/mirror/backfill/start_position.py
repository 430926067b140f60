"""Decides where the backfill of a partition begins, or why it is refused. Pure.

Three facts show which records were copied before: the flow's stored offset; the offset map, which
is written first and so may know more; and the target itself, since records after the map's end may
come from a killed backfill and then equal the source's next records one by one.
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
    """The range that the offset map covers of a partition: source offsets from `first` to before
    `reach`, the last of which is on the target before `target_end`."""

    first: int
    reach: int
    target_end: int


@dataclass(frozen=True, slots=True)
class PartitionLogs:
    """Both logs of a partition: first offset, and end offset (exclusive) for readers. `stored`: the
    flow's stored offset."""

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
    """Begin at source offset `position`. `look_from`: from this offset on, the target may already
    have the source's next records, so compare before copying. `unsure`: records after `position`
    may be copied again, because it is unknown whether they were copied. `lost`: number of source
    offsets that were deleted before they were copied. `note`: a note for the user."""

    position: int
    look_from: int | None = None
    unsure: bool = False
    lost: int = 0
    note: str = ""


def known_of(pages: Iterable[MapPage]) -> MapEnd | None:
    """Return the beginning and end of a partition's copy according to its pages."""
    whole = OffsetMap(pages)
    segments, reach = whole.segments, whole.end_source
    if reach is None:
        return None
    last = segments[-1]
    return MapEnd(segments[0].source, reach, last.target + last.length)


def choose_begin(logs: PartitionLogs, start: int | None) -> Begin:
    """`start`: the requested first source offset; None: the flow's stored offset, or the log start
    if there is none. Raises `BackfillRefused`."""
    position, target_from = _copied_before(logs)
    if position is None:
        begin = max(logs.source_start, start or 0)
        if logs.target_end > logs.target_start:
            return Begin(begin, look_from=logs.target_start)
        return Begin(begin)
    if position > logs.source_end:
        raise BackfillRefused(
            f"{logs.name}: offset {position} is next, and the source ends at {logs.source_end}: it "
            "was truncated or created again. Start the flow, which begins again then, or reset its "
            "stored offset"
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
    """Return the source offset to continue at, and its expected target offset, or None if that is
    unknown."""
    known = logs.known
    if known is None or known.target_end > logs.target_end:
        # There is no map, or it describes a target that has been deleted since.
        return logs.stored, None
    if logs.stored is None or known.reach >= logs.stored:
        return known.reach, known.target_end
    # Another program copied from the map's end to the stored offset.
    return logs.stored, None


def _check_start(logs: PartitionLogs, position: int, start: int) -> None:
    if start > position and start > logs.source_start:
        raise WouldLeaveGap(
            f"{logs.name}: the flow goes on at offset {position}, so what lies between it and "
            f"{start} would never be copied. Leave out --from and --since, or reset the flow's "
            "stored offset"
        )
    first = max(start, logs.source_start)
    if first < position and (logs.known is None or logs.known.first > first):
        what = (
            f"offsets {first} to {position - 1} are before it"
            if logs.known is None
            else f"offsets {first} to {logs.known.first - 1} were not copied before it began"
        )
        raise LaterRecordsThere(
            f"{logs.name}: the flow's stored offset is {position}, and {what}: if copied now, they "
            f"would follow later records in {logs.target_name}. Leave out --from and --since to go"
            " on where the flow stands; to have the history too, delete the copy and reset the "
            "flow's stored offset"
        )


def _note(logs: PartitionLogs, lost: int, position: int) -> str:
    if lost:
        return (
            f"offsets {position} to {logs.source_start - 1} were deleted from the source before "
            "they were copied"
        )
    if logs.known is not None and logs.known.first > logs.source_start:
        return (
            f"offsets {logs.source_start} to {logs.known.first - 1} were not copied: the flow began"
            " behind them"
        )
    return ""
