"""Copies the pieces of a backfill in this process. `connectors.mirror.spark.backfill` implements
the same interface on Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.errors import ConnectError
from connectors.mirror.backfill.scheduler import Chunk
from connectors.mirror.copy.copied_ranges import CopiedRange
from connectors.mirror.copy.range_copier import RangeCopier, RangeProgress, RangeReport
from connectors.mirror.copy.settings import EngineSettings

__all__ = ["STALL_S", "PieceEngine", "PieceOutcome", "copier_consumer", "local_engine"]

STALL_S = 30.0
"""A piece without progress for this long ends with an error."""


@dataclass(frozen=True, slots=True)
class PieceOutcome:
    """The result of a piece. `error`: why it ended early. `sure`: whether it is known which records
    it copied; False, for example, if its executor was lost. `late_s`: how much later than at its
    usual time it may then still be copied."""

    progress: tuple[RangeProgress, ...]
    lines: tuple[CopiedRange, ...]
    error: str | None = None
    sure: bool = True
    late_s: float = 0.0


PieceEngine = Callable[[Chunk], PieceOutcome]
"""An engine: copies a piece and returns. Called on several threads at a time. Raises no
`ConnectError`."""


def copier_consumer(consumer: Mapping[str, str]) -> dict[str, str]:
    """Return the Java properties of the copier's consumer: those of the flow, except that it
    continues at the log start offset if retention deletes records before they are copied. (A live
    flow may continue at the log end, which would skip requested records.)"""
    changed = dict(consumer)
    if changed.get("auto.offset.reset", "").strip().lower() == "latest":
        changed["auto.offset.reset"] = "earliest"
    return changed


def local_engine(settings: EngineSettings) -> PieceEngine:
    """Return an engine that copies on the calling thread."""

    def copy(piece: Chunk) -> PieceOutcome:
        report = RangeReport()
        error: str | None = None
        copier = RangeCopier(settings, starts_stored=True)
        try:
            copier.copy(
                piece.ranges,
                report.add,
                stop=threading.Event(),
                stall_s=STALL_S,
                most_s=piece.seconds,
                limits=piece.pace,
            )
        except ConnectError as failure:
            error = str(failure)
        finally:
            copier.close()
        return PieceOutcome(tuple(report.progress), tuple(report.copied), error)

    return copy
