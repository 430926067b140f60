"""The world "workers": N herders, a group coordinator and internal topics, under faults."""

from __future__ import annotations

import logging

from tests.simulation.outcome import Outcome
from tests.simulation.workers.world import World

__all__ = ["run"]


def run(seed: int) -> Outcome:
    """One run; the same seed gives the same run."""
    world = World(seed)
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return world.run()
    finally:
        logging.disable(before)
        world.close()
