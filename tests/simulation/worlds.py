"""The simulated worlds by name.

A world is a module with `run(seed) -> Outcome`: it builds the simulated clusters around the real
classes, lets the seed choose faults and their moments, and checks its oracle after every step. The
same seed gives the same run on every machine.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from tests.simulation.outcome import Outcome

__all__ = ["SEEDS_IN_CHECK", "SEEDS_IN_TEST", "WORLDS", "broken", "chunks", "run_world"]

WORLDS: dict[str, str] = {
    "copier": "tests.simulation.copier",
    "groups": "tests.simulation.groups.world",
    "mirror": "tests.simulation.mirror",
    "workers": "tests.simulation.workers",
}
"""World name to module."""

SEEDS_IN_CHECK: dict[str, int] = {"copier": 240, "groups": 800, "mirror": 120, "workers": 200}
"""World name to the number of seeds, from 0 on, that `make check` runs."""

SEEDS_IN_TEST = 1000
"""So many seeds of each world `make test` runs, those of `make check` included."""

_CHUNK = 20
"""Seeds of one test: few, so that the tests are spread evenly over the processes."""


def chunks(first: int, end: int) -> list[range]:
    """The seeds from `first` to before `end`, a few for each test."""
    return [range(start, min(start + _CHUNK, end)) for start in range(first, end, _CHUNK)]


def run_world(world: str, seed: int) -> Outcome:
    """Run one world under one seed. An exception inside the simulation is a finding, too."""
    run: Callable[[int], Outcome] = importlib.import_module(WORLDS[world]).run
    return run(seed)


def broken(world: str, seed: int) -> str | None:
    """What is wrong under one seed, with its history; None if nothing is."""
    outcome = run_world(world, seed)
    if outcome.finding is None:
        return None
    return "\n".join([f"{world}, seed {seed}: {outcome.finding}", *outcome.history])
