"""A fixed number of seeds of the groups world; `make simulate WORLD=groups` runs more."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.groups.world import run

SEEDS = 800


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("part", range(4))
def test_no_group_is_led_past_records_under_any_seed(part: int) -> None:
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        outcome = run(seed)
        assert outcome.finding is None, "\n".join([f"seed {seed}", *outcome.history])


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(7) == run(7)
