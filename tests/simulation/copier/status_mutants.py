"""Defects of what an engine says of its partitions, put back one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.stall_detector import StallDetector
from tests.simulation.mutants import Mutant, replacing

__all__ = ["STATUS_MUTANTS"]


def _nothing_stalls(self: StallDetector, *arguments: Any) -> None:
    """As where nobody looks."""


def _since_it_began(
    self: StallDetector,
    partition: PartitionCopy,
    nodes: Mapping[tuple[int, bool], Any],
    targets: Mapping[int, Any],
    now: float,
) -> str | None:
    moved = partition.progress
    partition.progress = (
        moved[0],
        self.__dict__.setdefault("began", {}).setdefault(partition, now),
    )
    try:
        return _stall(self, partition, nodes, targets, now)
    finally:
        partition.progress = moved


_stall = StallDetector._stall


def _acknowledged(self: StallDetector, partition: PartitionCopy) -> tuple[int, bool]:
    return partition.acked_position, partition.lag == 0


STATUS_MUTANTS = (
    Mutant(
        "stuck is not told",
        "copier",
        "A partition of which nothing is copied, and that has no error, counts as healthy.",
        replacing((StallDetector, "_stall", _nothing_stalls)),
    ),
    Mutant(
        "stuck though it moves",
        "copier",
        "A partition that has lag is told to be stuck, though it moves.",
        replacing((StallDetector, "_stall", _since_it_began)),
    ),
    Mutant(
        "aborts are progress",
        "copier",
        "A flow whose transactions are all aborted copies nothing, and counts as healthy.",
        replacing((StallDetector, "_copied", _acknowledged)),
    ),
)
