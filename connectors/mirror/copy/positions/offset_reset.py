"""Finds start positions: without a stored offset, and after one of the logs lost records.

Requests earliest or latest offsets from the source, in one request for all partitions that wait,
and retries until it succeeds. Reports each loss; the user's policy decides how copying continues.
 Runs on the copy engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Decision, Loss, LossKind
from connectors.mirror.copy.context import CopyContext, Located, LossFound
from connectors.mirror.copy.partition.partition import UNKNOWN, PartitionCopy

__all__ = ["OffsetReset"]

_LOG = logging.getLogger(__name__)

_RETRY_S = 1.0
_PENDING_S = 0.1

_ASK_TIMEOUT_S = 5.0
"""Partitions with a response wait no longer than this for the others."""

_KEEPS_SOURCE = (LossKind.TARGET_LOSS, LossKind.TARGET_RECREATED, LossKind.TRUNCATION)
"""Losses after which the source's log is still the one with the position."""

Offsets = Mapping[TopicPartition, "int | ConnectError"]


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for a position. `kind`: which offset to request; None: `resume` is known. `loss`:
    the loss found before the search, with its offsets; None: the response decides."""

    partition: PartitionCopy
    kind: int | None
    loss: LossKind | None = None
    first: int = UNKNOWN
    end: int = UNKNOWN
    resume: int = UNKNOWN


class OffsetReset:
    """Sets the positions of partitions (`Located`)."""

    def __init__(
        self,
        context: CopyContext,
        abandon: Callable[[PartitionCopy], None] = PartitionCopy.abandon,
    ) -> None:
        """`abandon`: drops what a partition has in flight whose target lost records."""
        self._context = context
        self._abandon = abandon
        self._link = context.source
        self._loop = context.loop
        self._fetch = context.settings.fetch
        self._policies = context.settings.losses
        self._waiting: dict[TopicPartition, _Search] = {}
        self._asked = False
        self._retry_posted = False

    def locate(self, partition: PartitionCopy) -> None:
        """Find the start offset of this partition as auto.offset.reset says."""
        if self._fetch.auto_offset_reset == "none":
            partition.searching = True
            partition.source_error = (
                f"there is no usable offset for {partition.source[0]}-{partition.source[1]}, and "
                "auto.offset.reset=none forbids choosing one: set it to earliest or latest, or "
                "store an offset"
            )
            return
        kind = LATEST if self._fetch.auto_offset_reset == "latest" else EARLIEST
        known = self._waiting.get(partition.source)
        if known is None or known.partition is not partition:
            self._search(_Search(partition, kind))

    def truncated(self, partition: PartitionCopy, end: int) -> None:
        """Handle a source log that differs from the copied records from `end` on."""
        position = partition.position
        if position <= end:
            # Batches beyond the end were dropped meanwhile, so no copied record is lost.
            self._keeps(partition, end)
            return
        if self._stands(partition, LossKind.TRUNCATION, end, position):
            return
        again = self._policies.decide(LossKind.TRUNCATION) is Decision.LOG_START
        kind = EARLIEST if again else None
        self._search(_Search(partition, kind, LossKind.TRUNCATION, end, position, end))

    def created_again(self, partition: PartitionCopy) -> None:
        """Start a re-created source topic at its first record."""
        kind = LossKind.SOURCE_RECREATED
        if not self._stands(partition, kind, 0, partition.position):
            self._search(_Search(partition, EARLIEST, kind, 0, partition.position))

    def was_begun_before(self, partition: PartitionCopy, first: int, begun: int) -> None:
        """Report offsets that were lost before the first stored offset: the partition once started
        at source offset `first`, and now at the log start, `begun`. With auto.offset.reset=latest
        this cannot be known, so nothing is reported."""
        kind = LossKind.RETENTION
        if self._fetch.auto_offset_reset != "earliest" or partition.position == UNKNOWN:
            return
        if not self._stands(partition, kind, first, begun):
            self._tell(_Search(partition, None, kind, first, begun), partition.position)

    def target_lost(
        self, partition: PartitionCopy, kind: LossKind, first: int, end: int, again: int | None
    ) -> None:
        """The target lost its offsets `first` to `end` - 1. `again`: the source offset to copy
        again from if the policy says so; None: the source's log start."""
        if self._stands(partition, kind, first, end):
            return
        if self._policies.decide(kind) is Decision.NEXT:
            self._tell(_Search(partition, None, kind, first, end), partition.acked_position)
            self._context.post(Located(partition))
            return
        partition.halted = True
        partition.landed_early = None
        # A loss of the source that is being examined now must be found again after this one.
        partition.source_checked = UNKNOWN
        ask = EARLIEST if again is None else None
        self._search(_Search(partition, ask, kind, first, end, again or 0))

    def _stands(self, partition: PartitionCopy, kind: LossKind, first: int, end: int) -> bool:
        """Whether the policy stops the partition from now on."""
        if self._policies.decide(kind) is not Decision.STAND:
            return False
        self.forget(partition)
        self._tell(_Search(partition, None, kind, first, end), None)
        partition.halted = kind in (LossKind.TARGET_LOSS, LossKind.TARGET_RECREATED)
        self._context.post(Located(partition))
        return True

    def forget(self, partition: PartitionCopy) -> None:
        """Cancel the search for this partition."""
        known = self._waiting.get(partition.source)
        if known is not None and known.partition is partition:
            del self._waiting[partition.source]
        partition.searching = False

    def _tell(self, search: _Search, resume: int | None) -> None:
        partition, kind = search.partition, search.loss
        assert kind is not None
        loss = Loss(
            kind,
            self._policies.of(kind),
            partition.source,
            partition.target,
            search.first,
            search.end,
            max(0, partition.position),
            resume,
        )
        _LOG.error("%s", loss)
        if resume is None:
            partition.standing = str(loss)
        else:
            partition.forget_lost(loss)
        partition.lost_records += loss.never_copied
        partition.metrics.lost(loss.records)
        self._context.post(LossFound(partition, loss))

    def _search(self, search: _Search) -> None:
        search.partition.searching = True
        self._waiting[search.partition.source] = search
        self._loop.post(self.ask)

    def _ask_after(self, seconds: float) -> None:
        if not self._retry_posted:
            self._retry_posted = True
            self._loop.after(seconds, self._ask_again)

    def _ask_again(self) -> None:
        self._retry_posted = False
        self.ask()

    def ask(self) -> None:
        """Send the pending requests. Call when the source's leaders may have changed."""
        if self._asked:
            return
        for search in [each for each in self._waiting.values() if each.partition.leaving]:
            self.forget(search.partition)
        if not self._waiting:
            return
        # Batches fetched before are copied first. Until then their positions are not replaced.
        idle = [s for s in self._waiting.values() if self._idle(s.partition)]
        for search in [s for s in idle if s.kind is None]:
            del self._waiting[search.partition.source]
            self._move(search, search.resume)
        idle = [s for s in idle if s.kind is not None]
        led = [s for s in idle if s.partition.source in self._link.snapshot.leaders]
        if not led:
            if self._waiting:
                self._ask_after(_RETRY_S if idle else _PENDING_S)
            return
        kind = led[0].kind
        assert kind is not None
        keys = tuple(s.partition.source for s in led if s.kind == kind)
        self._asked = True
        isolation = self._fetch.isolation_level
        future = self._link.list_offsets(keys, kind, isolation, _ASK_TIMEOUT_S)
        asked = {key: self._waiting[key] for key in keys}
        self._context.when_answered(
            future, partial(self._answered, asked), partial(self._failed, asked)
        )

    def _idle(self, partition: PartitionCopy) -> bool:
        if partition.halted and not partition.unanswered:
            self._abandon(partition)
        return not partition.queue and not partition.in_flight

    def _failed(self, asked: Mapping[TopicPartition, _Search], error: ConnectError) -> None:
        self._asked = False
        _LOG.warning("Cannot list the source's offsets: %s; retrying", error)
        for search in asked.values():
            search.partition.source_error = str(error)
        self._ask_after(_RETRY_S)

    def _answered(self, asked: Mapping[TopicPartition, _Search], located: Offsets) -> None:
        self._asked = False
        failed = False
        for key, offset in located.items():
            search = asked[key]
            if self._waiting.get(key) is not search:
                continue  # The next round requests it again.
            if search.partition.leaving:
                self.forget(search.partition)
                continue
            if isinstance(offset, ConnectError):
                search.partition.source_error = str(offset)
                failed = True
                continue
            del self._waiting[key]
            self._set(search, offset)
        if self._waiting:
            self._ask_after(_RETRY_S if failed else 0.0)

    def _set(self, search: _Search, offset: int) -> None:
        partition = search.partition
        before = partition.position
        if search.loss is not None or before == UNKNOWN:
            self._move(search, offset)
            return
        # The source returned OFFSET_OUT_OF_RANGE for the next offset.
        kind = LossKind.RETENTION if offset > before else LossKind.TRUNCATION
        end = offset if kind is LossKind.RETENTION else before
        if not self._stands(partition, kind, before, end):
            self._move(_Search(partition, None, kind, before, end), offset)

    def _move(self, search: _Search, offset: int) -> None:
        partition = search.partition
        cut_off = search.loss is LossKind.TRUNCATION and search.resume != UNKNOWN
        if cut_off and partition.position <= search.first:
            self._keeps(partition, search.first)
            return
        if search.loss is not None:
            start = search.first if search.loss is LossKind.TRUNCATION else partition.position
            self._tell(search, offset)
            if search.loss in _KEEPS_SOURCE and 0 <= start < offset:
                # The source deleted records before they could be copied because of the other loss.
                if self._stands(partition, LossKind.RETENTION, start, offset):
                    return
                self._tell(_Search(partition, None, LossKind.RETENTION, start, offset), offset)
        partition.relocate(offset)
        self._go_on(partition)

    def _keeps(self, partition: PartitionCopy, end: int) -> None:
        """Whether the source's log, which ends at `end` now, still has the position."""
        partition.epochs.cut(end)
        self._go_on(partition)

    def _go_on(self, partition: PartitionCopy) -> None:
        partition.searching = partition.halted = False
        partition.source_error = None
        self._context.post(Located(partition))
