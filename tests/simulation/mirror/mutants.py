"""Defects of tasks, offset maps and workers, put back for the mutation gate."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from connect.plugin import StoredOffset
from connect.protocol.messages import TopicPartition
from connect.runtime.transfer.task import WorkerTransferTask
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.positions.log_validation import LogValidation
from connectors.mirror.copy.positions.offset_reset import OffsetReset
from connectors.mirror.offsets import start_positions
from connectors.mirror.offsets.map_topic_reading import MapTopic
from connectors.mirror.offsets.offset_map_writer import MapWriter
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from connectors.mirror.offsets.page_index import PageIndex
from connectors.mirror.offsets.partition_pages import PartitionPages
from connectors.mirror.offsets.source_offsets import Reached
from connectors.mirror.offsets.start_position_tracker import StartPositionTracker
from connectors.mirror.source.task import MirrorSourceTask
from tests.simulation.mutants import Mutant, replaced

__all__ = ["MUTANTS"]

_LONG_MS = 10**12


@contextlib.contextmanager
def _stepping_after_a_failure() -> Iterator[None]:
    def deliver(self: WorkerTransferTask, seconds: float) -> None:
        try:
            self._task.step(seconds)
        except Exception:  # noqa: BLE001 - as it was
            self._commit_moved.wait(seconds)

    with replaced(WorkerTransferTask, "_deliver", deliver):
        yield


@contextlib.contextmanager
def _offsets_before_pages() -> Iterator[None]:
    real = OffsetSyncWriter.prepare

    def prepare(self: OffsetSyncWriter, reached: Sequence[Reached]) -> Future[list[StoredOffset]]:
        write_pages = self._write_pages

        def first_then(later: Sequence[Reached], then: Callable[[], None]) -> None:
            then()
            write_pages(later)

        with replaced(self, "_write_pages", first_then):
            return real(self, reached)

    with replaced(OffsetSyncWriter, "prepare", prepare):
        yield


@contextlib.contextmanager
def _not_taken_back() -> Iterator[None]:
    def take_back(
        self: MirrorSourceTask, added: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionCopy]:
        for key in added:
            self._partition_metrics.forget(key)
        return {}

    with replaced(MirrorSourceTask, "_take_back", take_back):
        yield


@contextlib.contextmanager
def _session_is_the_clock() -> Iterator[None]:
    def settle(self: PartitionPages, spans: object) -> None:
        self._guessed = None

    with (
        replaced(PageIndex, "newest", lambda self, key: -1),
        replaced(PartitionPages, "settle", settle),
    ):
        yield


@contextlib.contextmanager
def _first_positions_stay() -> Iterator[None]:
    def forget_first(self: OffsetSyncWriter, keys: Collection[TopicPartition]) -> None:
        """Nothing, as it was."""

    with replaced(OffsetSyncWriter, "forget_first", forget_first):
        yield


@contextlib.contextmanager
def _begun_without_keeping() -> Iterator[None]:
    real = StartPositionTracker.begun

    def begun(
        self: StartPositionTracker, key: TopicPartition, position: int, topic_id: Any
    ) -> None:
        real(self, key, position, topic_id)
        self._release([key])

    with replaced(StartPositionTracker, "begun", begun):
        yield


@contextlib.contextmanager
def _came_back_as_stored() -> Iterator[None]:
    real = MirrorSourceTask._take_back

    def take_back(
        self: MirrorSourceTask, added: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionCopy]:
        back = real(self, added)
        for partition in back.values():
            partition.stored_position = partition.acked_position
        return back

    with replaced(MirrorSourceTask, "_take_back", take_back):
        yield


@contextlib.contextmanager
def _former_owners_are_strangers() -> Iterator[None]:
    real = MapWriter.has_read

    def has_read(self: MapWriter, found: MapTopic, *, stood_still: bool = False) -> None:
        self._has_read = True
        real(self, found, stood_still=stood_still)

    with replaced(MapWriter, "has_read", has_read):
        yield


@contextlib.contextmanager
def _deleted_first_positions_are_gone() -> Iterator[None]:
    with replaced(start_positions, "_DELETED_MS", -_LONG_MS):
        yield


@contextlib.contextmanager
def _re_created_topics_are_the_same() -> Iterator[None]:
    with replaced(LogValidation, "_another_source", lambda *_: False):
        yield


@contextlib.contextmanager
def _cut_off_logs_are_whole() -> Iterator[None]:
    def truncated(self: OffsetReset, partition: PartitionCopy, end: int) -> None:
        self._go_on(partition)

    with replaced(OffsetReset, "truncated", truncated):
        yield


MUTANTS = (
    Mutant(
        "failed-task-steps-on",
        "mirror",
        "A failed task went on copying while its last offsets were stored, past records that it had"
        " failed to copy.",
        _stepping_after_a_failure,
    ),
    Mutant(
        "offsets-before-pages",
        "mirror",
        "Source offsets were stored before the map's pages that explain them were written.",
        _offsets_before_pages,
    ),
    Mutant(
        "not-taken-back",
        "mirror",
        "A partition that came back before its position was stored began at the older one again.",
        _not_taken_back,
    ),
    Mutant(
        "came-back-as-stored",
        "mirror",
        "The position of a partition that came back was taken for stored, and never stored.",
        _came_back_as_stored,
    ),
    Mutant(
        "session-is-the-clock",
        "mirror",
        "Pages of a worker whose clock was behind were overruled by older pages.",
        _session_is_the_clock,
    ),
    Mutant(
        "first-positions-stay",
        "mirror",
        "Where a partition was begun was not forgotten once an offset of it was stored.",
        _first_positions_stay,
    ),
    Mutant(
        "begun-without-keeping",
        "mirror",
        "A partition was copied before it was kept where it begins.",
        _begun_without_keeping,
    ),
    Mutant(
        "former-owners-are-strangers",
        "mirror",
        "A task whose first read of the map's topic failed deleted the pages of former owners.",
        _former_owners_are_strangers,
    ),
    Mutant(
        "deleted-first-positions-are-gone",
        "mirror",
        "A first position that was deleted between two reads of a start was not found.",
        _deleted_first_positions_are_gone,
    ),
    Mutant(
        "re-created-topics-are-the-same",
        "mirror",
        "A source topic that was deleted and created again was taken for the one before.",
        _re_created_topics_are_the_same,
    ),
    Mutant(
        "cut-off-logs-are-whole",
        "mirror",
        "Other records at offsets that were copied, after an unclean election of the source,"
        " were left out.",
        _cut_off_logs_are_whole,
    ),
)
