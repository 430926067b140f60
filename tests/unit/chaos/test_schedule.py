"""Schedules of faults: the same for the same seed, and within what a trial can bear."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.chaos.schedule import KINDS, TRACKS, plan, show


def test_a_schedule_is_a_function_of_its_seed() -> None:
    assert plan(7, 120) == plan(7, 120)
    assert plan(7, 120) != plan(8, 120)
    assert show(plan(7, 120)) == show(plan(7, 120))


@pytest.mark.parametrize("seed", range(20))
def test_actions_of_a_track_do_not_overlap(seed: int) -> None:
    actions = plan(seed, 120, nodes=3, workers=2, partitions=2)
    assert {action.track for action in actions} == set(TRACKS)
    for track in TRACKS:
        own = [action for action in actions if action.track == track]
        assert all(a.at + a.hold_s < b.at for a, b in pairwise(own))
        assert all(0 < action.at < 120 for action in own)
        assert {action.which for action in own} <= ({1, 2, 3} if track in TRACKS[:2] else {1, 2})


def test_every_kind_is_drawn() -> None:
    drawn = {(action.track, action.kind) for seed in range(40) for action in plan(seed, 120)}
    assert drawn == {(track, kind) for track, kinds in KINDS.items() for kind in kinds}
