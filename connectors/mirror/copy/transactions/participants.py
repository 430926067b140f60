"""The members of the open transaction: partitions with something to send, and the partitions of the
offsets topic that receive their source offsets.

Waiting partitions are added in one request to the coordinator, one request at a time. Runs on the
copy engine's thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Protocol

from connect.clients.errors import error_from_code
from connect.errors import ConnectError
from connect.plugin import TransferTransactions
from connect.protocol.error_codes import ErrorCode, code_facts
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.context import CopyContext, RefusedByTransaction
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.transactions.offsets_partitions import OffsetsPartitions
from connectors.mirror.copy.transactions.timing import PAUSE_S

__all__ = ["MembershipOwner", "TransactionPartitions"]


class MembershipOwner(Protocol):
    """The owner of the transaction."""

    def may_add(self) -> float | None:
        """Return the seconds until partitions may be added; None: not before `ask_soon` is called
        again."""

    def added(self, asked_at: float) -> None:
        """Handle added partitions. `asked_at`: when the request was sent to the coordinator."""

    def serve_requests(self) -> None:
        """Complete requests to commit if no partition waits any more."""

    def judge(self, error: ConnectError) -> None:
        """Handle partitions that the coordinator did not add."""


class TransactionPartitions:
    """Tracks and adds the members of the open transaction."""

    def __init__(
        self,
        context: CopyContext,
        control: TransferTransactions,
        offsets: OffsetsPartitions,
        owner: MembershipOwner,
    ) -> None:
        self._context = context
        self._control = control
        self._loop = context.loop
        self._offsets = offsets
        self._owner = owner
        self._begun: dict[PartitionCopy, int] = {}
        self._wanted: dict[PartitionCopy, None] = {}
        self._wanted_offsets: set[int] = set()
        self._asking = self._posted = False

    @property
    def all(self) -> Collection[PartitionCopy]:
        return self._begun.keys()

    @property
    def waiting(self) -> bool:
        """Whether a partition waits to be added, or is being added."""
        return self._asking or bool(self._wanted or self._wanted_offsets)

    def begun(self, partition: PartitionCopy) -> int | None:
        """Return a member's source offset before the transaction."""
        return self._begun.get(partition)

    def relocated(self, partition: PartitionCopy) -> None:
        """Handle a partition that moved. After an abort it continues at the earlier of its old and
        new position."""
        begun = self._begun.get(partition)
        if begun is not None:
            self._begun[partition] = min(begun, partition.acked_position)

    def want(self, partition: PartitionCopy) -> None:
        """Add a partition that has something to send."""
        self._wanted[partition] = None
        self.ask_soon()

    def want_offsets(self, partitions: Collection[PartitionCopy]) -> None:
        """Add partitions only to store their source offsets. None of their batches are sent."""
        if self._offsets.known:
            self._wanted_offsets |= {self._offsets.number(p) for p in partitions}
        self.ask_soon()

    def forget(self) -> None:
        """Reset, because the transaction has ended."""
        self._begun.clear()

    def ask_soon(self, seconds: float = 0.0) -> None:
        if self._posted or self._asking:
            return
        self._posted = True
        if seconds > 0:
            self._loop.after(seconds, self._ask)
        else:
            self._loop.post(self._ask)

    def _ask(self) -> None:
        self._posted = False
        wait = self._owner.may_add()
        if self._asking or wait is None:
            return
        if wait > 0 or not self._offsets.known:
            self.ask_soon(max(wait, PAUSE_S))
            return
        asked = [p for p in self._wanted if p.queue and p not in self._begun]
        offsets = {self._offsets.number(p) for p in asked} | self._wanted_offsets
        offsets -= self._offsets.members
        self._wanted.clear()
        self._wanted_offsets = set()
        if not asked and not offsets:
            self._owner.serve_requests()
            return
        self._asking = True
        asked_at = self._loop.now()
        topic = self._offsets.topic
        future = self._control.add([*(p.target for p in asked), *((topic, n) for n in offsets)])
        answered = partial(self._answered, asked, offsets, asked_at)
        self._context.when_answered(future, answered, self._add_failed)

    def _answered(
        self,
        asked: list[PartitionCopy],
        offsets: set[int],
        asked_at: float,
        codes: Mapping[TopicPartition, int],
    ) -> None:
        self._asking = False
        answers = {p: codes.get(p.target, ErrorCode.OPERATION_NOT_ATTEMPTED) for p in asked}
        self._begun.update({p: p.acked_position for p, code in answers.items() if code == 0})
        refused = self._take_offsets(offsets, codes)
        if refused is not None:
            self._owner.judge(refused)
            return
        any_added = any(code == 0 for code in codes.values())
        if any_added:
            self._owner.added(asked_at)
        for partition, code in answers.items():
            if code == ErrorCode.OPERATION_NOT_ATTEMPTED:
                self._wanted[partition] = None
            elif code:
                self._context.post(RefusedByTransaction(partition, code))
            else:
                self._context.mark(partition)
        if self._wanted or self._wanted_offsets:
            self.ask_soon(0.0 if any_added else PAUSE_S)

    def _add_failed(self, error: ConnectError) -> None:
        self._asking = False
        self._owner.judge(error)

    def _take_offsets(
        self, offsets: set[int], codes: Mapping[TopicPartition, int]
    ) -> ConnectError | None:
        """Return why offsets can never be stored; None: they can."""
        for number in offsets:
            code = codes.get((self._offsets.topic, number), ErrorCode.OPERATION_NOT_ATTEMPTED)
            if code == 0:
                made = self._offsets.add(number)
                if made is not None:
                    self._context.mark(made)
            elif code == ErrorCode.OPERATION_NOT_ATTEMPTED or code_facts(code).retriable:
                self._wanted_offsets.add(number)
            else:
                what = f"Adding {self._offsets.topic}-{number} to the transaction"
                return error_from_code(code, what, needs=f"Write on topic {self._offsets.topic}")
        return None
