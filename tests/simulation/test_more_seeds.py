"""The seeds of `make test` beyond those of `make check`.

They only compute, and fill the time in which tests on brokers wait.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest

from tests.simulation.worlds import SEEDS_IN_CHECK, SEEDS_IN_TEST, WORLDS, broken, chunks


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    # Killed workers leave sockets open; other tests must not be blamed for them.
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("world", "seeds"),
    [
        pytest.param(world, seeds, id=f"{world}-{seeds.start}")
        for world in WORLDS
        for seeds in chunks(SEEDS_IN_CHECK[world], SEEDS_IN_TEST)
    ],
)
def test_no_seed_breaks_an_invariant(world: str, seeds: range) -> None:
    for seed in seeds:
        finding = broken(world, seed)
        assert finding is None, finding
