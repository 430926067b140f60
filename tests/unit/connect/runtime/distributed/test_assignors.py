"""The assignors against traces of Apache Kafka's (tests/golden/group_protocol), and their laws."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.protocol.membership import Assignment, ConnectorTask, decode_assignment
from connect.runtime.distributed.assignor_cooperative import (
    CooperativeAssignor,
    CooperativeRound,
    revocation_backoff_ms,
)
from connect.runtime.distributed.assignor_eager import assign_eagerly

GOLDEN = Path(__file__).parents[4] / "golden" / "group_protocol"
MAX_DELAY_MS = 300_000


def golden(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((GOLDEN / name).read_text())
    return cases


def instance(text: str) -> ConnectorTask:
    name, dash, task = text.partition("-")
    return name, int(task) if dash else -1


def texts(members: Any) -> dict[str, list[str]]:
    return {
        member: sorted(name if task < 0 else f"{name}-{task}" for name, task in instances)
        for member, instances in members.items()
    }


class Group:
    """Workers that do as told, and a leader among them."""

    def __init__(self, max_delay_ms: int = MAX_DELAY_MS, **configured: int) -> None:
        self.configured = configured
        self.members: dict[str, tuple[ConnectorTask, ...]] = {}
        self.now_ms = 1_000_000
        self.generation = 0
        self.assignor = CooperativeAssignor(max_delay_ms)

    def join(self, member: str) -> None:
        self.members[member] = ()

    def round(self) -> CooperativeRound:
        outcome = self.assignor.assign(
            self.members, self.configured, self.now_ms, self.generation, self.generation + 1
        )
        self.generation += 1
        for member, running in self.members.items():
            revoked = outcome.revoked[member]
            kept = tuple(one for one in running if one not in revoked)
            self.members[member] = outcome.assigned[member] + kept
        return outcome

    def settle(self) -> list[CooperativeRound]:
        """Rounds until nobody has anything to revoke; delays are waited for."""
        rounds = [self.round()]
        while any(rounds[-1].revoked.values()) or rounds[-1].delay_ms:
            self.now_ms += rounds[-1].delay_ms
            rounds.append(self.round())
            assert len(rounds) < 30, "the group does not come to rest"
        return rounds

    def running(self) -> dict[str, list[str]]:
        return texts(self.members)

    def validate(self) -> None:
        """Nothing lost, nothing doubled, nobody with two more than another."""
        everything = [one for load in self.members.values() for one in load]
        wanted = {(name, -1) for name in self.configured}
        wanted |= {(name, n) for name, count in self.configured.items() for n in range(count)}
        assert sorted(everything) == sorted(wanted)
        for connectors in (True, False):
            loads = [
                sum((task < 0) is connectors for _, task in load) for load in self.members.values()
            ]
            assert max(loads) - min(loads) <= 1


# As Java.


@pytest.mark.parametrize("trace", golden("assignor_traces.json"), ids=lambda trace: trace["name"])
def test_each_round_is_that_of_java(trace: dict[str, Any]) -> None:
    assignor = CooperativeAssignor(trace["max_delay"])
    leader = 1
    for number, expected in enumerate(trace["rounds"]):
        if expected["leader"] != leader:
            leader = expected["leader"]
            assignor = CooperativeAssignor(trace["max_delay"])
        members = {m: [instance(one) for one in own] for m, own in expected["members"].items()}
        outcome = assignor.assign(
            members,
            expected["configured"],
            expected["now"],
            expected["last"],
            expected["current"],
        )
        for what in ("assigned", "revoked", "owners"):
            in_java = {member: sorted(own) for member, own in expected[what].items()}
            assert texts(getattr(outcome, what)) == in_java, (number, what)
        assert outcome.delay_ms == expected["delay"], number


@pytest.mark.parametrize("case", golden("eager_assignments.json"))
def test_eager_assignments_are_those_of_java(case: dict[str, Any]) -> None:
    in_java = {member: bytes.fromhex(data) for member, data in case["assignments"].items()}
    assigned = assign_eagerly(in_java, case["configured"])
    for member, data in in_java.items():
        decoded = decode_assignment(data)
        assert decoded == Assignment(0, 0, "m0", "http://m0:8083/", 7, decoded.assigned)
        assert sorted(assigned[member]) == sorted(decoded.assigned)


# What the rounds of a group look like.


def test_a_lone_worker_gets_everything_at_once() -> None:
    group = Group(a=2)
    group.join("w1")
    assert texts(group.round().assigned) == {"w1": ["a", "a-0", "a-1"]}


def test_a_second_worker_gets_its_share_one_round_after_it_was_revoked() -> None:
    group = Group(a=4, b=3)
    group.join("w1")
    group.settle()
    group.join("w2")
    first, second = group.settle()
    assert texts(first.revoked) == {"w1": ["a", "a-0", "a-1", "a-2"], "w2": []}
    assert texts(first.assigned) == {"w1": [], "w2": []}
    assert texts(second.assigned) == {"w1": [], "w2": ["a", "a-0", "a-1", "a-2"]}


def three_workers() -> Group:
    group = Group(a=4, b=3)
    for member in ("w1", "w2", "w3"):
        group.join(member)
        group.settle()
    return group


def test_what_a_worker_ran_waits_for_its_return() -> None:
    group = three_workers()
    before = group.running()
    del group.members["w3"]
    assert group.round().delay_ms == MAX_DELAY_MS
    group.now_ms += 100_000
    group.join("w4")
    late = group.round()
    assert late.delay_ms == 200_000
    assert not any(late.assigned.values())
    group.now_ms += 200_000
    returned = group.round()
    assert returned.delay_ms == 0
    assert texts(returned.assigned) == {"w1": [], "w2": [], "w4": before["w3"]}


def test_without_delay_it_goes_to_others_at_once() -> None:
    group = Group(max_delay_ms=0, a=2)
    for member in ("w1", "w2"):
        group.join(member)
        group.settle()
    del group.members["w2"]
    assert group.round().delay_ms == 0
    group.validate()


def test_what_two_run_is_revoked_from_both_and_assigned_anew() -> None:
    group = three_workers()
    group.members["w2"] += (("b", 0),)
    assert ("b", 0) in group.members["w1"]
    first = group.round()
    assert ("b", 0) in first.revoked["w1"]
    assert ("b", 0) in first.revoked["w2"]
    group.settle()
    group.validate()


def test_a_new_leader_moves_nothing() -> None:
    group = three_workers()
    before = group.running()
    group.assignor = CooperativeAssignor(MAX_DELAY_MS)
    assert not any(group.round().revoked.values())
    assert group.running() == before


def test_a_new_leader_revokes_what_is_not_configured_any_more() -> None:
    group = three_workers()
    (owner,) = [member for member, load in group.members.items() if ("b", 2) in load]
    del group.configured["b"]
    group.configured["b"] = 2
    group.assignor = CooperativeAssignor(MAX_DELAY_MS)
    assert ("b", 2) in group.round().revoked[owner]


def test_revoking_in_a_row_is_slowed_down() -> None:
    series = [revocation_backoff_ms(number, MAX_DELAY_MS) for number in range(1, 7)]
    assert series == [40, 1_600, 64_000, 300_000, 300_000, 300_000]
    assert revocation_backoff_ms(1_000_000, 2**31 - 1) == 2**31 - 1
    assert revocation_backoff_ms(3, 0) == 0


changes = st.one_of(
    st.tuples(st.just("join"), st.integers(0, 5)),
    st.tuples(st.just("leave"), st.integers(0, 5)),
    st.tuples(st.just("configure"), st.integers(0, 5), st.integers(0, 8)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.integers(0, 400_000)),
)


def change(group: Group, what: tuple[Any, ...]) -> None:
    kind, number = what[:2]
    if kind == "join" and f"w{number}" not in group.members:
        group.join(f"w{number}")
    elif kind == "leave" and len(group.members) > 1:
        group.members.pop(f"w{number}", None)
    elif kind == "configure":
        group.configured[f"c{number}"] = what[2]
    elif kind == "delete":
        group.configured.pop(f"c{number}", None)
    elif kind == "wait":
        group.now_ms += number


@given(
    st.lists(st.lists(changes, max_size=3), max_size=12), st.sampled_from([0, 5_000, MAX_DELAY_MS])
)
def test_whatever_happens_a_group_comes_to_balance(
    history: list[list[tuple[Any, ...]]], max_delay_ms: int
) -> None:
    group = Group(max_delay_ms)
    group.join("w9")
    for happened in history:
        for what in happened:
            change(group, what)
        group.round()
        running = [one for load in group.members.values() for one in load]
        assert len(running) == len(set(running)), "an instance runs twice"
    # Two calm rests: the first may begin in the middle of a delay.
    group.settle()
    group.settle()
    group.validate()
