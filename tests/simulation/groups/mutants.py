"""Defects of the offset map, checkpoints and group sync that once existed, put back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from connectors.mirror.checkpoints.store import CheckpointBook
from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets import offset_map_store, translation, translator
from connectors.mirror.offsets.map_topic_reading import MapTopicReading
from connectors.mirror.offsets.offset_map_index import PartitionIndex, Stretch
from connectors.mirror.offsets.offset_map_pages import PageSpan
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.offset_map_writer import MapWriter
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from connectors.mirror.offsets.partition_pages import PartitionPages
from connectors.mirror.offsets.translation import Known, Place
from tests.simulation.groups.topics import Topics
from tests.simulation.mutants import Mutant, replaced

__all__ = ["MUTANTS"]


@contextlib.contextmanager
def _old_syncs_count() -> Iterator[None]:
    """A loss page is a place like another, and any sync that leads further is gone by."""
    real = translation.places_in_stretch

    def places(stretch: Stretch, value: bytes, sources: Sequence[int]) -> list[Known]:
        lost = stretch.page.lost
        return [
            Known(Place(known.place.offset, False, 0, known.place.loss))
            if lost and known.place is not None
            else Known(known.place)
            for known in real(stretch, value, sources)
        ]

    with replaced(offset_map_store, "places_in_stretch", places):
        yield


@contextlib.contextmanager
def _no_correction() -> Iterator[None]:
    """A checkpoint that was emitted before a loss stays."""
    real = translation.best_place

    def best(known: Known | None, sync: OffsetSync | None, upstream: int) -> Place | None:
        place = real(known, sync, upstream)
        return None if place is None else place._replace(loss=0)

    def emit(
        self: CheckpointBook, checkpoint: object, place: Place, void: int | None = None
    ) -> bool:
        return keep(self, checkpoint, Place(place.offset, False), void)  # type: ignore[arg-type]

    keep = CheckpointBook.emit
    with replaced(translator, "best_place", best), replaced(CheckpointBook, "emit", emit):
        yield


def _group_sync_never_goes_back() -> AbstractContextManager[None]:
    return replaced(CheckpointBook, "void", lambda self: {})


@contextlib.contextmanager
def _session_is_the_clock() -> Iterator[None]:
    """Pages have the time at which the worker began as their session, whatever the topic has."""
    begin = PartitionPages.__init__

    def init(self: PartitionPages, session: int, *, settled: bool = False) -> None:
        begin(self, session, settled=settled)

    def settle(self: PartitionPages, spans: Iterable[PageSpan], loss: int = -1) -> list[PageSpan]:
        self._guessed = None
        return list(spans)

    with replaced(PartitionPages, "__init__", init), replaced(PartitionPages, "settle", settle):
        yield


@contextlib.contextmanager
def _pages_by_offset_only() -> Iterator[None]:
    """Records of the map's topic are pages whatever their key; another topic is not noticed."""
    init = OffsetMapStore.__init__

    def small(self: OffsetMapStore, fetch: offset_map_store.FetchPages) -> None:
        init(self, fetch, 0)

    def take(self: OffsetMapStore, key: bytes | None, value: bytes | None, at: int) -> None:
        self._last = -1
        real_take(self, key, value, at)

    real_take = OffsetMapStore.take
    with (
        replaced(OffsetMapStore, "__init__", small),
        replaced(OffsetMapStore, "take", take),
        replaced(OffsetMapStore, "forget", lambda self: None),
        replaced(offset_map_store, "_is_page", lambda wanted, key, value: True),
    ):
        yield


def _late_pages_stay() -> AbstractContextManager[None]:
    return replaced(MapWriter, "_compare", lambda self, found, read_before: None)


@contextlib.contextmanager
def _nobody_owns_partitions() -> Iterator[None]:
    """A worker that wakes up writes on, and its pages count beside its successor's."""
    with (
        replaced(OffsetSyncWriter, "_notice_standstill", lambda self: None),
        replaced(PartitionIndex, "note_owner", lambda self, noted: None),
        replaced(MapTopicReading, "_take_owner", lambda self, key, record: None),
        replaced(Topics, "counts", lambda self, key, value: False),
    ):
        yield


MUTANTS = (
    Mutant(
        "nobody-owns-partitions",
        "groups",
        "A frozen worker's pages counted after another had its partitions, and the target a loss.",
        _nobody_owns_partitions,
    ),
    Mutant(
        "late-pages-stay",
        "groups",
        "Pages that a frozen worker wrote late were not written over by its successor.",
        _late_pages_stay,
    ),
    Mutant(
        "old-syncs-lead-past-a-loss",
        "groups",
        "After the target lost records, offset syncs from before led groups past the next ones.",
        _old_syncs_count,
    ),
    Mutant(
        "checkpoints-before-a-loss-stay",
        "groups",
        "A checkpoint that was emitted before the target lost records was not corrected.",
        _no_correction,
    ),
    Mutant(
        "group-sync-never-goes-back",
        "groups",
        "Group offsets that were synced before the target lost records were not taken back.",
        _group_sync_never_goes_back,
    ),
    Mutant(
        "map-session-is-the-clock",
        "groups",
        "A worker whose clock was behind wrote pages of the offset map that were ignored.",
        _session_is_the_clock,
    ),
    Mutant(
        "map-pages-by-offset-only",
        "groups",
        "After the map's topic was created again, other partitions' pages answered.",
        _pages_by_offset_only,
    ),
)
