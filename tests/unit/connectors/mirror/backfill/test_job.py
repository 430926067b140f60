"""When the target is searched for the records of a piece that has no result."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.mirror.backfill.engines import PieceOutcome
from connectors.mirror.backfill.job import DRAIN_S, BackfillJob
from connectors.mirror.backfill.scheduler import BackfillScheduler, Chunk, SchedulerOptions
from tests.support.fake_clock import FakeClock

PIECE = Chunk(1, (), None, 10.0)
NOTHING: Any = None


@pytest.mark.parametrize("late_s", [0.0, 40.0])
def test_it_is_searched_when_nothing_can_be_copying_the_piece_any_more(late_s: float) -> None:
    clock = FakeClock()
    job = BackfillJob(
        NOTHING,
        NOTHING,
        NOTHING,
        BackfillScheduler.of([], SchedulerOptions(1000, 10.0)),
        NOTHING,
        NOTHING,
        slots=lambda: 1,
        look=lambda: None,
        tell=lambda _: None,
        clock=clock,
    )
    began = clock.monotonic()
    job._lose(PIECE, PieceOutcome((), (), "gone", sure=False, late_s=late_s), began)
    (lost,) = job._lost
    assert lost.due == began + 10.0 + DRAIN_S + late_s
