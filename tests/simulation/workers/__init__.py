"""The world "workers": N herders, a group coordinator and internal topics, under faults."""

from __future__ import annotations

from tests.simulation.outcome import Outcome
from tests.simulation.workers.logged import defects_end_the_run
from tests.simulation.workers.world import World

__all__ = ["run"]


def run(seed: int) -> Outcome:
    """One run; the same seed gives the same run."""
    world = World(seed)
    try:
        with defects_end_the_run():
            return world.run()
    finally:
        world.close()
