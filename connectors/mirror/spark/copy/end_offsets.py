"""Keeps a board's source end offsets current, and finds positions for partitions that have none.

Also compares the topic IDs of both sides, from time to time and when a batch seems to have landed
in another log. Partitions whose leader does not respond are requested separately, so that others do
not wait for them. Runs on the task's thread; responses arrive through `post`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol
from uuid import UUID

from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.clients.config.settings import AutoOffsetReset
from connect.clients.errors import broker_code, not_authorized
from connect.clock import Clock
from connect.errors import ConnectError
from connect.protocol.error_codes import code_facts
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.topic_looks import TopicLooks
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.partition import SparkPartition
from connectors.mirror.spark.copy.source_offsets import Found, SourceOffsets
from connectors.mirror.spark.copy.target_ids import RenewedTargets

__all__ = ["TICK_S", "Listing", "TargetTopics"]

_LOG = logging.getLogger(__name__)

TICK_S, _BUSY_TICK_S = 0.25, 0.1
"""How often the source's end offsets are requested, which is how soon new records are noticed.
More often while something is copied, because then new records may have to wait for a slot, too."""

_SHARE = 8
"""Requests take at most this share (1/8) of the time, for any number of partitions."""

_SUSPECT_S = 5.0
_PLACE_S = 1.0


class TargetTopics(Protocol):
    """The IDs of the target's topics."""

    def watch_targets(self, topics: Collection[str]) -> None:
        """Set the topics whose IDs are known soon, and renewed with all metadata."""

    def refresh_target_ids(self, topics: Collection[str]) -> None:
        """Request the IDs of these topics now, without blocking."""

    @property
    def target_topic_ids(self) -> Mapping[str, UUID]:
        """Return the IDs, as far as known. A changed state is a new mapping."""


class Listing:
    """Requests the source's offsets for one board. Belongs to the task's thread."""

    def __init__(
        self,
        board: PartitionBoard,
        offsets: SourceOffsets,
        targets: TargetTopics,
        reset: AutoOffsetReset,
        post: Callable[[Callable[[], None]], None],
        clock: Clock,
    ) -> None:
        self._board = board
        self._offsets = offsets
        self._targets = targets
        self._renewed = RenewedTargets(board)
        self._looks = TopicLooks(clock.monotonic())
        self._reset: AutoOffsetReset = reset
        self._post = post
        self._clock = clock
        self._suspects: set[TopicPartition] = set()
        self._forbidden: set[str] = set()
        """Topics named in the last logged message about missing permissions."""
        self._due = self._suspects_due = self._places_due = 0.0
        self._asking = self._asking_suspects = self._placing = False
        self._failing = False
        self._seen_ids: Mapping[str, UUID] | None = None
        self._seen_target_ids: Mapping[str, UUID] | None = None

    def watch(self) -> None:
        """Update the topics after the board's partitions have changed."""
        self._offsets.watch({partition.source[0] for partition in self._board})
        self._targets.watch_targets({partition.target[0] for partition in self._board})
        self._suspects &= {partition.source for partition in self._board}
        self._due = self._places_due = 0.0
        self.compare()

    def compare(self) -> None:
        """Compare topic IDs again, because other IDs were known before."""
        self._seen_ids = self._seen_target_ids = None

    def landed_early(self, partition: SparkPartition) -> None:
        """Request the target's topic ID at once: a batch landed before the known end of its log."""
        self._targets.refresh_target_ids((partition.target[0],))

    def next_s(self) -> float:
        """Return the seconds until `turn` has something to do."""
        if self._asking:
            return TICK_S
        return max(0.0, self._due - self._clock.monotonic())

    def turn(self) -> None:
        """Send the offset requests that are due."""
        now = self._clock.monotonic()
        self._compare_ids(now)
        if not self._placing and now >= self._places_due:
            self._place(now)
        if not self._asking and now >= self._due:
            keys = {p.source for p in self._board if not p.leaving} - self._suspects
            self._asking = bool(keys)
            self._due = now + self._tick_s()
            if keys:
                self._ask(keys, LATEST, lambda found: self._ends(found, now))
        if self._suspects and not self._asking_suspects and now >= self._suspects_due:
            self._asking_suspects = True
            self._ask(
                set(self._suspects), LATEST, lambda found: self._suspects_answered(found, now)
            )

    def _compare_ids(self, now: float) -> None:
        if self._looks.due(now, len(self._board)):
            self._offsets.refresh_topic_ids({partition.source[0] for partition in self._board})
            self._targets.refresh_target_ids({partition.target[0] for partition in self._board})
        ids = self._offsets.topic_ids
        if ids is not self._seen_ids:
            self._seen_ids = ids
            self._board.topic_ids(ids)
        ids = self._targets.target_topic_ids
        if ids is not self._seen_target_ids:
            self._seen_target_ids = ids
            self._renewed.seen(ids)
        self._renewed.turn()

    def _ask(
        self,
        keys: set[TopicPartition],
        timestamp: int,
        then: Callable[[Found | ConnectError], None],
    ) -> None:
        self._offsets.ask(keys, timestamp, lambda found: self._post(lambda: then(found)))

    # End offsets.

    def _ends(self, found: Found | ConnectError, asked_at: float) -> None:
        self._asking = False
        now = self._clock.monotonic()
        self._due = now + max(self._tick_s(), _SHARE * (now - asked_at))
        self._take(found, asked_at)

    def _tick_s(self) -> float:
        return _BUSY_TICK_S if self._board.flying else TICK_S

    def _suspects_answered(self, found: Found | ConnectError, asked_at: float) -> None:
        self._asking_suspects = False
        self._suspects_due = self._clock.monotonic() + _SUSPECT_S
        self._take(found, asked_at)

    def _take(self, found: Found | ConnectError, asked_at: float) -> None:
        if isinstance(found, ConnectError):
            if not self._failing:
                _LOG.warning("cannot list the source's offsets: %s; retrying", found)
            self._failing = True
            self._explain(self._board, str(found))
            return
        if self._failing:
            _LOG.info("listing the source's offsets succeeds again")
            self._failing = False
        ends: dict[TopicPartition, int] = {}
        for key, answer in found.items():
            partition = self._board.get(key)
            if isinstance(answer, ConnectError):
                self._suspects.add(key)
                self._suspects_due = self._clock.monotonic() + _SUSPECT_S
                if partition is not None:
                    self._refused(partition, answer)
                continue
            ends[key] = answer
            self._suspects.discard(key)
            self._forbidden.discard(key[0])
            if partition is not None and partition.listing_error is not None:
                partition.listing_error = None
        self._board.ends(ends, self._clock.now_ms(), asked_at)

    @staticmethod
    def _explain(partitions: Iterable[SparkPartition], reason: str) -> None:
        for partition in partitions:
            partition.listing_error = reason

    def _refused(self, partition: SparkPartition, error: ConnectError) -> None:
        """Show why the source returns no offset. The missing permission is also logged, once per
        topic."""
        reason, code = str(error), broker_code(error)
        if code is not None and not_authorized(error):
            # Read implies Describe, which alone would only lead to the next refusal.
            topic, number = partition.source
            reason = (
                f"the source partition {topic}-{number} is not available: "
                f"{code_facts(code).name}; grant Read on topic {topic} at the source"
            )
            if topic not in self._forbidden:
                self._forbidden.add(topic)
                _LOG.warning("%s; retrying", reason)
        partition.listing_error = reason

    # Positions.

    def _place(self, now: float) -> None:
        self._places_due = now + _PLACE_S
        waiting = self._board.unplaced()
        if not waiting:
            return
        again = [partition for partition in waiting if partition.begin_again]
        fresh = [partition for partition in waiting if not partition.begin_again]
        if fresh and self._reset == "none":
            for partition in fresh:
                partition.copy_error = (
                    f"there is no usable offset for {partition.source[0]}-{partition.source[1]}, "
                    "and auto.offset.reset=none forbids choosing one: set it to earliest or "
                    "latest, or store an offset"
                )
            fresh = []
        chosen = again or fresh
        if not chosen:
            return
        latest = not again and self._reset == "latest"
        self._placing = True
        keys = {partition.source for partition in chosen}
        self._ask(keys, LATEST if latest else EARLIEST, self._placed)

    def _placed(self, found: Found | ConnectError) -> None:
        self._placing = False
        if isinstance(found, ConnectError):
            self._take(found, self._clock.monotonic())
            return
        for partition in self._board.unplaced():
            answer = found.get(partition.source)
            if isinstance(answer, ConnectError):
                self._refused(partition, answer)
            elif answer is not None:
                self._board.place(partition, answer)
