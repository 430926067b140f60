"""Where pieces are copied: in this process. Spark is the other way
(`connectors.mirror.spark.backfill`), behind the same call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connect.clients.config.properties import fetch_settings
from connect.errors import ConnectError
from connectors.mirror.backfill.scheduler import Piece
from connectors.mirror.copy.engine import EngineSettings
from connectors.mirror.copy.range_copier import CopiedRange, RangeCopier, RangeProgress

__all__ = ["STALL_S", "PieceEngine", "PieceOutcome", "copier_consumer", "local_engine"]

_LEAST_FETCH_BYTES = 16 * 1024
_FETCH_SHARE_S = 0.25
"""With a limit on the rate one fetch asks for what may come in this time; a batch comes whole."""

STALL_S = 30.0
"""A piece in which nothing moves for so long ends with the reason."""


@dataclass(frozen=True, slots=True)
class PieceOutcome:
    """What became of a piece. `error`: why it ended early. `sure` False: what it copied is not
    known, as its executor was lost, say."""

    progress: tuple[RangeProgress, ...]
    lines: tuple[CopiedRange, ...]
    error: str | None = None
    sure: bool = True


PieceEngine = Callable[[Piece], PieceOutcome]
"""Copies a piece and returns; called on several threads at a time. Raises no `ConnectError`."""


def copier_consumer(consumer: Mapping[str, str], rate: float | None, slots: int) -> dict[str, str]:
    """The Java properties of the copier's consumer: the flow's, but for two.

    Where retention is faster than the backfill it goes on at what is left; to go on at the end, as
    a live flow may, would leave out what was asked for. And with a limit on the rate, fetches are
    so small that it is kept evenly.
    """
    changed = dict(consumer)
    if changed.get("auto.offset.reset", "").strip().lower() == "latest":
        changed["auto.offset.reset"] = "earliest"
    if rate is not None:
        most = max(_LEAST_FETCH_BYTES, round(rate / max(1, slots) * _FETCH_SHARE_S))
        settings = fetch_settings(consumer)
        changed["fetch.max.bytes"] = str(min(settings.fetch_max_bytes, most))
        changed["max.partition.fetch.bytes"] = str(min(settings.max_partition_fetch_bytes, most))
    return changed


def local_engine(settings: EngineSettings) -> PieceEngine:
    """Copies on the calling thread."""

    def copy(piece: Piece) -> PieceOutcome:
        lines: list[CopiedRange] = []
        last: list[RangeProgress] = []

        def note(progress: Sequence[RangeProgress], copied: Sequence[CopiedRange]) -> None:
            lines.extend(copied)
            last[:] = progress

        error: str | None = None
        copier = RangeCopier(settings)
        try:
            copier.copy(
                piece.ranges,
                note,
                stop=threading.Event(),
                stall_s=STALL_S,
                most_s=piece.seconds,
                rate=piece.rate,
            )
        except ConnectError as failure:
            error = str(failure)
        finally:
            copier.close()
        return PieceOutcome(tuple(last), tuple(lines), error)

    return copy
