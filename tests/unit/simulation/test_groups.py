"""A fixed number of seeds of the groups world; `make simulate WORLD=groups` runs more."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.groups.world import run

SEEDS = 800

FOUND = (
    *(54, 316, 496, 590, 700, 1148, 1539, 2480, 15381),
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
    *(19368, 19533, 20832, 20932, 23211, 23792, 23979, 25997),
)
"""Seeds that once had a finding."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("part", range(4))
def test_no_group_is_led_past_records_under_any_seed(part: int) -> None:
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        _check(seed)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    _check(seed)


def _check(seed: int) -> None:
    outcome = run(seed)
    finding = f"seed {seed}: {outcome.finding}"
    assert outcome.finding is None, "\n".join([finding, *outcome.history])


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(7) == run(7)
