"""The simulated worlds by name.

A world is a module with `run(seed) -> Outcome`: it builds the simulated clusters around the real
classes, lets the seed choose faults and their moments, and checks its oracle after every step. The
same seed gives the same run on every machine.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from tests.simulation.outcome import Outcome

__all__ = ["WORLDS", "run_world"]

WORLDS: dict[str, str] = {
    "copier": "tests.simulation.copier",
    "groups": "tests.simulation.groups.world",
    "mirror": "tests.simulation.mirror",
    "workers": "tests.simulation.workers",
}
"""World name to module."""


def run_world(world: str, seed: int) -> Outcome:
    """Run one world under one seed. An exception inside the simulation is a finding, too."""
    run: Callable[[int], Outcome] = importlib.import_module(WORLDS[world]).run
    return run(seed)
