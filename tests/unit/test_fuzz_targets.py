"""The short form of `make fuzz`: all seeds, all earlier findings, and seeds that are broken."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, found, seeds


@pytest.mark.parametrize("name", TARGETS)
def test_good_input_and_earlier_findings(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds():
        target.run(seed)
    for data in seeds(name):
        found(target, data)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data())
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
def test_broken_input(name: str, data: st.DataObject) -> None:
    broken = bytearray(data.draw(st.sampled_from(seeds(name))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(broken) - 1)))
        end = min(len(broken), at + data.draw(st.integers(0, 8)))
        broken[at:end] = data.draw(st.binary(max_size=8))
    found(TARGETS[name], bytes(broken))
