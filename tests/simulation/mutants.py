"""Known defects, put back one at a time: each must be found by its world within a bound of seeds.

`python -m tests.simulation.mutants` (`make mutants`) runs all of them, or those that are named. A
mutant is a context manager that replaces a method of the product by its defective form.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.runs.counts import note
from tests.simulation.hash_seed import with_fixed_hash_seed
from tests.simulation.worlds import run_world

__all__ = ["MOST_SEEDS", "Mutant", "find", "mutants", "replaced", "replacing"]

MOST_SEEDS = 2000

_MODULES: tuple[str, ...] = (
    "tests.simulation.copier.mutants",
    "tests.simulation.groups.mutants",
    "tests.simulation.mirror.mutants",
    "tests.simulation.workers.mutants",
)
"""Modules with a `MUTANTS` tuple, one for each world."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect that once existed. `name` is short and stable; `world` finds it."""

    name: str
    world: str
    defect: str
    """One sentence: the defect, as a changelog would describe it."""
    put_back: Callable[[], AbstractContextManager[None]]


@contextlib.contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute of a class or module for the length of a `with` block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def replacing(
    *replacements: tuple[object, str, object],
) -> Callable[[], AbstractContextManager[None]]:
    """What puts a mutant's defect back: (owner, name, defective form) of each replacement."""

    @contextlib.contextmanager
    def put_back() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for owner, name, value in replacements:
                stack.enter_context(replaced(owner, name, value))
            yield

    return put_back


def mutants() -> list[Mutant]:
    """All mutants of all worlds."""
    found: list[Mutant] = []
    for module in _MODULES:
        found += importlib.import_module(module).MUTANTS
    return found


def find(mutant: Mutant, most: int = MOST_SEEDS) -> int | None:
    """The first seed, from 0 on, whose run has a finding while the defect is there."""
    with mutant.put_back():
        for seed in range(most):
            if run_world(mutant.world, seed).finding is not None:
                return seed
    return None


def _timed(name: str, most: int) -> tuple[int | None, float]:
    """What `find` says of the mutant of this name, and the seconds it took; in a process of the
    pool."""
    logging.disable(logging.CRITICAL)
    mutant = next(each for each in mutants() if each.name == name)
    began = time.monotonic()
    return find(mutant, most), time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants to run; all by default")
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS)
    parser.add_argument("--world", help="only the mutants of this world")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    chosen = [
        mutant
        for mutant in mutants()
        if (not options.names or mutant.name in options.names)
        and (options.world is None or mutant.world == options.world)
    ]
    missed = 0
    began = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        runs = [(mutant, pool.submit(_timed, mutant.name, options.seeds)) for mutant in chosen]
        for mutant, run in runs:
            seed, seconds = run.result()
            missed += seed is None
            said = f"found by seed {seed}" if seed is not None else "NOT FOUND"
            print(f"{mutant.world:12} {mutant.name:40} {said}, {seconds:.1f} s", flush=True)
    print(
        f"{len(chosen) - missed} of {len(chosen)} defects found within {options.seeds} seeds,"
        f" {time.monotonic() - began:.0f} s"
    )
    note({"defects": len(chosen), "found": len(chosen) - missed})
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    with_fixed_hash_seed("tests.simulation.mutants")
    sys.exit(main())
