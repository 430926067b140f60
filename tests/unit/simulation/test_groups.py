"""A fixed number of seeds of the groups world; `make simulate WORLD=groups` runs more."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.groups.world import run
from tests.simulation.worlds import SEEDS_IN_CHECK, broken, chunks

FOUND = (
    *(1699, 7005, 12742, 13777, 45692, 55131, 64224, 86442, 90665, 92867, 110385, 30744),
    *(54, 316, 496, 590, 700, 1148, 1539, 2480),
    *(
        1282,
        1806,
        2165,
        6182,
        8615,
        11158,
        11814,
        12261,
        12706,
        13002,
        13539,
        14205,
        17645,
        18581,
        19047,
    ),
    *(4225, 8487, 11623, 12539, 19368, 19533, 20832, 20932, 23211, 23792, 23979, 25997),
    *(3783, 3795, 15381),
)
"""Seeds that once had a finding."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seeds", chunks(0, SEEDS_IN_CHECK["groups"]), ids=str)
def test_no_group_is_led_past_records_under_any_seed(seeds: range) -> None:
    for seed in seeds:
        _check(seed)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    _check(seed)


def _check(seed: int) -> None:
    finding = broken("groups", seed)
    assert finding is None, finding


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(7) == run(7)
