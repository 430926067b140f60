"""Some seeds of the simulated worker groups; `make simulate` runs as many as one wants."""

from __future__ import annotations

import pytest

from tests.simulation.workers.world import World
from tests.simulation.worlds import SEEDS_IN_CHECK, broken, chunks

_FOUND = (
    *(713, 1658, 1829, 1845, 2075, 2820, 3401, 3447, 3455, 3707, 3741, 4306),
    *(5193, 5419, 6549, 12131, 12157, 15546, 16203, 20537, 20792),
)
"""Seeds that once had a finding."""


@pytest.mark.parametrize("seeds", chunks(0, SEEDS_IN_CHECK["workers"]), ids=str)
def test_a_group_under_faults_runs_each_task_once_and_converges(seeds: range) -> None:
    for seed in seeds:
        _check(seed)


@pytest.mark.parametrize("seed", _FOUND)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    _check(seed)


def _check(seed: int) -> None:
    finding = broken("workers", seed)
    assert finding is None, finding


def test_the_same_seed_gives_the_same_run() -> None:
    stories = []
    for _ in range(2):
        world = World(7)
        world.run()
        world.close()
        stories.append(world.engine.history)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 50
