"""Offsets are written for groups that do not run on the target, and never back."""

from __future__ import annotations

import pytest

from connect.clients.groups.consumer_groups import Committed, GroupListing
from connectors.mirror.checkpoints.group_offset_sync import plan_group_offsets
from connectors.mirror.formats import Checkpoint

Key = tuple[str, int]
T0, T1 = ("A.t", 0), ("A.t", 1)


def at(**offsets: int) -> dict[Key, Checkpoint]:
    """Checkpoints of group g by partition: p0=5 is offset 5 of partition 0."""
    return {
        ("A.t", int(name[1:])): Checkpoint("g", "A.t", int(name[1:]), 1000, offset, "m")
        for name, offset in offsets.items()
    }


def plan(
    state: str | None, committed: dict[Key, Committed] | None, **offsets: int
) -> dict[Key, int | None]:
    states = {} if state is None else {"g": GroupListing("g", state)}
    has = {} if committed is None else {"g": committed}
    planned = plan_group_offsets({"g": at(**offsets)}, states, has)
    return {key: each.offset for key, each in planned.get("g", {}).items()}


@pytest.mark.parametrize("state", [None, "DEAD"])
def test_a_group_that_the_target_does_not_have_gets_all_its_offsets(state: str | None) -> None:
    assert plan(state, None, p0=5, p1=7) == {T0: 5, T1: 7}


@pytest.mark.parametrize(
    "state", ["STABLE", "PREPARING_REBALANCING", "COMPLETING_REBALANCING", "UNKNOWN"]
)
def test_a_group_that_runs_or_may_run_is_left_alone(state: str) -> None:
    assert plan(state, {}, p0=5) == {}
    assert plan(state, None, p0=5) == {}


def test_an_empty_group_only_goes_forward() -> None:
    has = {T0: Committed(5), T1: Committed(6)}
    assert plan("EMPTY", has, p0=5, p1=7, p2=9) == {T1: 7, ("A.t", 2): 9}
    assert plan("EMPTY", {T0: Committed(6)}, p0=5) == {}


def test_an_offset_that_the_broker_forgot_is_written_again() -> None:
    assert plan("EMPTY", {T0: Committed(None)}, p0=5) == {T0: 5}


def test_an_empty_group_whose_offsets_could_not_be_read_is_left_alone() -> None:
    assert plan("EMPTY", None, p0=5) == {}


def test_the_metadata_goes_with_the_offset() -> None:
    assert plan_group_offsets({"g": at(p0=5)}, {}, {}) == {"g": {T0: Committed(5, "m")}}
