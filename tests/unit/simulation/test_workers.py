"""Some seeds of the simulated worker groups; `make simulate` runs as many as one wants."""

from __future__ import annotations

import pytest

from tests.simulation.workers.world import World
from tests.simulation.worlds import run_world

_SEEDS = 200
_CHUNK = 10


@pytest.mark.parametrize("first", range(0, _SEEDS, _CHUNK))
def test_a_group_under_faults_runs_each_task_once_and_converges(first: int) -> None:
    for seed in range(first, first + _CHUNK):
        outcome = run_world("workers", seed)
        story = "\n".join(outcome.history)
        assert outcome.finding is None, f"seed {seed}: {outcome.finding}\n{story}"


def test_the_same_seed_gives_the_same_run() -> None:
    stories = []
    for _ in range(2):
        world = World(7)
        world.run()
        world.close()
        stories.append(world.engine.history)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 50
