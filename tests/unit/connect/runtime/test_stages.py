"""What a herder says it is doing."""

from __future__ import annotations

from connect.runtime.stages import Stages
from tests.support.fake_clock import FakeClock


def test_the_stage_under_way_and_then_the_last_one() -> None:
    clock = FakeClock(now_ms=1_700_000_000_000)
    stages = Stages(clock)
    assert stages.summary() is None
    with stages.during("restarting connector c"):
        assert stages.summary() == (
            "The worker is currently restarting connector c, which began at 2023-11-14T22:13:20Z."
        )
        clock.advance(1.5)
    assert stages.summary() == (
        "The last operation the worker completed was restarting connector c, which began at"
        " 2023-11-14T22:13:20Z and completed at 2023-11-14T22:13:21.500Z."
    )


def test_a_stage_in_a_stage_leads_back_to_it() -> None:
    stages = Stages(FakeClock())
    with stages.during("outer"):
        with stages.during("inner"):
            assert "currently inner" in (stages.summary() or "")
        assert "currently outer" in (stages.summary() or "")
