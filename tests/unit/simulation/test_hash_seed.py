"""Runs do not depend on the order of sets of strings, which differs from process to process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.worlds import WORLDS

_SEEDS = range(2)

_TELL = """
import hashlib, logging, sys
from tests.simulation.worlds import run_world
logging.disable(logging.CRITICAL)
for seed in map(int, sys.argv[2:]):
    run = run_world(sys.argv[1], seed)
    print(seed, run.events, hashlib.sha256("\\n".join(run.history).encode()).hexdigest())
"""


def _told(world: str, hash_seed: str) -> str:
    command = [sys.executable, "-c", _TELL, world, *map(str, _SEEDS)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    return ended.stdout


@pytest.mark.parametrize("world", WORLDS)
def test_a_seed_has_the_same_history_under_another_order_of_sets(world: str) -> None:
    once, again = _told(world, "1"), _told(world, "2")
    assert once == again
    assert len(once.splitlines()) == len(_SEEDS)
