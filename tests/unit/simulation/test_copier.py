"""Some seeds of the simulated copier; `make simulate WORLD=copier` runs as many as one wants."""

from __future__ import annotations

import pytest

from tests.simulation.copier.plan import plan_for
from tests.simulation.copier.world import CopierWorld
from tests.simulation.worlds import SEEDS_IN_CHECK, broken, chunks

_FOUND = (
    158,
    243,
    396,
    515,
    532,
    643,
    938,
    1009,
    1148,
    1396,
    1724,
    2430,
    2507,
    2550,
    3145,
    3396,
    3486,
    3512,
    4057,
    4224,
    4244,
    4561,
    4812,
    5027,
    8526,
    8887,
    12124,
    19160,
    26366,
)
"""Seeds that once had a finding."""


@pytest.mark.parametrize("seeds", chunks(0, SEEDS_IN_CHECK["copier"]), ids=str)
def test_all_is_copied_in_order_and_every_gap_is_told(seeds: range) -> None:
    for seed in seeds:
        _check(seed)


@pytest.mark.parametrize("seed", _FOUND)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    _check(seed)


def _check(seed: int) -> None:
    finding = broken("copier", seed)
    assert finding is None, finding


def test_the_same_seed_gives_the_same_run() -> None:
    stories = []
    for _ in range(2):
        world = CopierWorld(plan_for(3), in_detail=True)
        world.run()
        stories.append(list(world.story))
    assert stories[0] == stories[1]
    assert len(stories[0]) > 50
