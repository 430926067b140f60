"""Passes the copy engine the facts about the logs that were stored with the positions at which it
starts partitions.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.clock import Clock
from connect.plugin import TransferTransactions
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.engine import CopyEngine
from connectors.mirror.offsets.log_identity import LogIdentity, noted_facts
from connectors.mirror.offsets.source_offsets import source_partition
from connectors.mirror.offsets.start_position_tracker import WITHIN_S

__all__ = ["LogFacts"]


class LogFacts:
    """The partitions that were just started, until their facts are known. Belongs to the task's
    thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.positions: dict[TopicPartition, int] = {}
        """Where the partitions that wait start."""
        self._until = 0.0

    def add(self, key: TopicPartition, position: int) -> None:
        """Let a partition wait that starts at this position."""
        self.positions[key] = position

    def begin(self) -> None:
        """Limit the wait from now on."""
        self._until = self._clock.monotonic() + WITHIN_S

    def take_noted(self, engine: CopyEngine, control: TransferTransactions, alias: str) -> None:
        """Pass the engine the facts that are stored with the offsets under exactly-once. `alias`:
        the source's."""
        if not self.positions:
            return
        keys = list(self.positions)
        notes = control.notes([source_partition(alias, key) for key in keys])
        for key, note in zip(keys, notes, strict=True):
            facts = noted_facts(note, self.positions[key])
            if facts is not None:
                engine.learn(key, facts)
                del self.positions[key]

    def turn(self, engine: CopyEngine, facts: Mapping[TopicPartition, LogIdentity] | None) -> None:
        """Pass the engine the stored facts; None: they are being read. Call while partitions
        wait."""
        if facts is None:
            if self._clock.monotonic() >= self._until:
                # Start without the facts rather than wait longer. Losses are then found later.
                for key in self.positions:
                    engine.learn(key, None)
                self._until = float("inf")
            return
        for key, position in self.positions.items():
            known = facts.get(key)
            engine.learn(key, known if known and known.hold_for(position) else None)
        self.positions.clear()
