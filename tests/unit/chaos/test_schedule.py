"""Schedules of faults: the same for the same seed, and within what a trial can bear."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.chaos.forms import Form
from tests.support.chaos.schedule import KINDS, MORE_TRACKS, NEEDS, TRACKS, plan, show
from tests.support.chaos.seeds import CHOSEN, FOUND

ALL = (*TRACKS, *MORE_TRACKS)


def test_a_schedule_is_a_function_of_its_seed() -> None:
    assert plan(7, 120) == plan(7, 120)
    assert plan(7, 120) != plan(8, 120)
    assert show(plan(7, 120)) == show(plan(7, 120))


@pytest.mark.parametrize("seed", range(20))
def test_actions_of_a_track_do_not_overlap(seed: int) -> None:
    actions = plan(seed, 120, nodes=3, workers=2, partitions=2, tracks=ALL)
    assert {action.track for action in actions} == set(ALL)
    most = {"source": 3, "target": 3, "links": 8, "partitions": 1}
    for track in ALL:
        own = [action for action in actions if action.track == track]
        assert all(a.at + a.hold_s < b.at for a, b in pairwise(own))
        assert all(0 < action.at < 120 for action in own)
        assert {action.which for action in own} <= set(range(1, most.get(track, 2) + 1))


def test_every_kind_is_drawn() -> None:
    drawn = {
        (action.track, action.kind) for seed in range(40) for action in plan(seed, 120, tracks=ALL)
    }
    assert drawn == {(track, kind) for track, kinds in KINDS.items() for kind in kinds}


def test_more_tracks_leave_the_others_as_they_were() -> None:
    """Seeds that found something are run for ever."""
    with_more = [action for action in plan(3, 15, tracks=ALL) if action.track in TRACKS]
    assert with_more == plan(3, 15)
    assert show(plan(3, 15)[:3]) == SEED_3


SEED_3 = """\
   1.68 s  target 3: restart, 1.27 s
   1.75 s  topics 1: trim, 5.12 s
   1.80 s  source 3: move leaders, 4.97 s"""


def test_what_is_left_out_changes_nothing_else() -> None:
    for need, kinds in NEEDS.items():
        kept = plan(5, 300, tracks=ALL, without=[need])
        assert kept == [a for a in plan(5, 300, tracks=ALL) if (a.track, a.kind) not in kinds]
        assert len(kept) < len(plan(5, 300, tracks=ALL))


def test_seeds_that_run_for_ever_have_every_form_and_every_kind_of_fault() -> None:
    kept = [*FOUND, *CHOSEN]
    assert {rules.form for rules in kept} == set(Form)
    assert any(rules.form is Form.SPARK and rules.exactly_once for rules in kept)
    drawn = [{(each.track, each.kind) for each in rules.actions()} for rules in kept]
    assert set().union(*drawn) == {
        (track, kind) for track, kinds in KINDS.items() for kind in kinds
    }
    assert any({("target", "fill disk"), ("controllers", "kill")} <= each for each in drawn)
