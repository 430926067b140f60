"""`make simulate SEEDS=0-1000 WORLD=...`: run simulated worlds under many seeds on all cores.

Prints each finding with its history and the command that repeats it, and ends with 1 if there was
one.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.runs.counts import note
from tests.simulation.hash_seed import with_fixed_hash_seed
from tests.simulation.outcome import Outcome
from tests.simulation.worlds import WORLDS, run_world

_CHUNK = 25
_MOST_SHOWN = 5


def _run_chunk(world: str, seeds: Sequence[int]) -> tuple[int, int, list[Outcome]]:
    """(runs, events, findings) of some seeds, in a process of the pool."""
    logging.disable(logging.CRITICAL)
    events = 0
    found: list[Outcome] = []
    for seed in seeds:
        outcome = run_world(world, seed)
        events += outcome.events
        if outcome.finding is not None:
            found.append(outcome)
    return len(seeds), events, found


def _show(outcome: Outcome) -> None:
    print(f"\n{outcome.world}, seed {outcome.seed}: {outcome.finding}")
    for line in outcome.history:
        print(f"    {line}")
    print(f"  again: make simulate WORLD={outcome.world} SEEDS={outcome.seed}")


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _chunks(seeds: range) -> Iterator[range]:
    for start in range(seeds.start, seeds.stop, _CHUNK):
        yield range(start, min(start + _CHUNK, seeds.stop))


def _run(world: str, seeds: range, processes: int) -> int:
    began = time.monotonic()
    runs = events = findings = 0
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(_run_chunk, world, chunk) for chunk in _chunks(seeds)]
        for future in futures:
            done, happened, found = future.result()
            runs, events = runs + done, events + happened
            for outcome in found:
                findings += 1
                if findings <= _MOST_SHOWN:
                    _show(outcome)
    seconds = time.monotonic() - began
    rate = 60 * runs / max(seconds, 0.001)
    print(
        f"{world}: {runs} seeds, {events} events, {findings} findings, "
        f"{seconds:.1f} s, {rate:.0f} seeds a minute"
    )
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default=range(1000), help="FIRST-LAST, or one")
    parser.add_argument("--world", choices=sorted(WORLDS), action="append")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    worlds = options.world or sorted(WORLDS)
    findings = sum(_run(world, options.seeds, options.processes) for world in worlds)
    note({"worlds": len(worlds), "seeds each": len(options.seeds), "findings": findings})
    return 1 if findings else 0


if __name__ == "__main__":
    with_fixed_hash_seed("tests.simulation")
    sys.exit(main())
