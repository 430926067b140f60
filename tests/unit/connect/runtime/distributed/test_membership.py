"""A worker's place in its group, as its member's callbacks make it."""

from __future__ import annotations

import pytest

from connect.protocol.membership import (
    CONFIG_MISMATCH,
    Assignment,
    ConnectorTask,
    decode_assignment,
    decode_metadata,
    encode_assignment,
)
from connect.runtime.distributed.membership import Membership
from connect.runtime.states import InstanceId
from connect.storage.config_state import ClusterConfigState
from connect.storage.memory_status_store import MemoryConfigStore
from tests.support.fake_clock import FakeClock

URL, OTHER = "http://me:8083/", "http://other:8083/"
C, T0, T1 = ("c", -1), ("c", 0), ("c", 1)


class Group:
    """Membership of a worker whose config topic has connector c with two tasks."""

    def __init__(self, connect_protocol: str = "sessioned") -> None:
        self.events: list[str] = []
        self.acts_on: ClusterConfigState | None = None
        self.followed = 0
        self.store = MemoryConfigStore()
        self.store.put_connector_config("c", {"name": "c"})
        self.store.put_task_configs("c", [{}, {}])
        self.running_generation = 0
        self.membership = Membership(
            URL, connect_protocol, 0, self.store, self, lambda: self.running_generation, FakeClock()
        )

    def before_join(self) -> ClusterConfigState:
        self.followed += 1
        return self.store.snapshot() if self.acts_on is None else self.acts_on

    def on_revoked(self, revoked: frozenset[InstanceId]) -> None:
        self.events.append("revoked " + " ".join(sorted(map(str, revoked))))

    def on_lost(self, lost: frozenset[InstanceId], generation: int) -> None:
        self.events.append(f"lost {' '.join(sorted(map(str, lost)))} in {generation}")

    def on_assigned(self, assignment: Assignment, generation: int) -> None:
        self.events.append(f"assigned {len(assignment.assigned)} in {generation}")

    def join(
        self,
        *assigned: ConnectorTask,
        revoked: tuple[ConnectorTask, ...] = (),
        error: int = 0,
        protocol: str = "sessioned",
        leader: str = "other",
    ) -> None:
        """A whole round."""
        self.running_generation += 1
        version = {"default": 0, "compatible": 1, "sessioned": 2}[protocol]
        self.membership.on_join_prepare()
        answer = Assignment(version, error, leader, OTHER, 4, assigned, revoked)
        self.membership.on_join_complete(
            self.running_generation, "me", protocol, encode_assignment(answer, version)
        )


@pytest.fixture
def group() -> Group:
    return Group()


def assigned(group: Group) -> set[str]:
    return {str(instance) for instance in group.membership.assigned}


@pytest.mark.parametrize(
    ("connect_protocol", "offers"),
    [
        ("sessioned", ["sessioned", "compatible", "default"]),
        ("compatible", ["compatible", "default"]),
        ("eager", ["default"]),
    ],
)
def test_each_protocol_that_is_offered_says_how_far_we_have_read(
    connect_protocol: str, offers: list[str]
) -> None:
    group = Group(connect_protocol)
    found = group.membership.metadata()
    assert [name for name, _ in found] == offers
    for _, data in found:
        state = decode_metadata(data)
        assert (state.url, state.config_offset) == (URL, group.store.snapshot().offset)
        assert state.assignment is None


def test_what_is_assigned_adds_up_and_is_reported_whole(group: Group) -> None:
    group.join(C, T0)
    group.join(T1, revoked=(T0,))
    assert group.events == ["assigned 2 in 1", "revoked c-0", "assigned 2 in 2"]
    assert assigned(group) == {"c", "c-1"}
    for name, data in group.membership.metadata():
        allocation = decode_metadata(data).assignment
        if name == "default":
            assert allocation is None
        else:
            assert allocation is not None
            assert set(allocation.assigned) == {C, T1}


def test_revocations_that_were_done_are_not_reported_again(group: Group) -> None:
    group.join(C, revoked=(T0,))
    assignment = group.membership.assignment
    assert assignment is not None
    assert assignment.revoked == (T0,)
    group.membership.forget_revocations()
    assignment = group.membership.assignment
    assert assignment is not None
    assert (assignment.revoked, assignment.assigned) == ((), (C,))


def test_an_eager_group_gives_everything_up_first_and_gets_everything_anew() -> None:
    group = Group("eager")
    group.join(C, T0, protocol="default")
    assert group.membership.eager
    group.join(T1, protocol="default")
    assert group.events == ["assigned 2 in 1", "revoked c c-0", "assigned 1 in 2"]
    assert assigned(group) == {"c-1"}


def test_a_round_that_failed_keeps_what_runs(group: Group) -> None:
    group.join(C)
    group.join(error=CONFIG_MISMATCH)
    assignment = group.membership.assignment
    assert assignment is not None
    assert assignment.failed
    assert assigned(group) == {"c"}


@pytest.mark.parametrize("lost", [True, False])
def test_giving_up_leaves_nothing_to_report(group: Group, *, lost: bool) -> None:
    group.join(C, T0)
    if lost:
        group.membership.on_coordinator_lost()
        assert group.events[-1] == "lost c c-0 in 1"
    else:
        group.membership.give_up()
        assert group.events[-1] == "revoked c c-0"
    assert (group.membership.assignment, group.membership.leader_url) == (None, "")
    assert not group.membership.is_leader
    assert all(decode_metadata(data).assignment is None for _, data in group.membership.metadata())
    group.membership.give_up()
    assert len(group.events) == 2


def test_a_worker_that_is_put_out_claims_its_work_and_says_nothing_new_of_it(
    group: Group,
) -> None:
    group.join(C, T0)
    group.membership.on_evicted()
    assert group.events[-1] == "lost c c-0 in 1"
    reported = decode_metadata(group.membership.metadata()[0][1]).assignment
    assert reported is not None
    assert set(reported.assigned) == {C, T0}
    group.running_generation = 4
    group.join(revoked=(C, T0))
    generation_of = group.membership.generation_of
    assert [generation_of(InstanceId("c", task)) for task in (-1, 0, 1)] == [1, 1, 5]
    group.join(C)
    assert [generation_of(InstanceId("c", task)) for task in (-1, 0, 1)] == [6, 1, 6]


@pytest.mark.parametrize(
    ("protocol", "signs", "eager"),
    [("sessioned", True, False), ("compatible", False, False), ("default", False, True)],
)
def test_the_elected_protocol_decides_whether_requests_are_signed(
    group: Group, protocol: str, signs: bool, eager: bool
) -> None:
    group.join(protocol=protocol)
    assert (group.membership.signs, group.membership.eager) == (signs, eager)


def test_a_leader_knows_who_runs_what_until_the_next_round(group: Group) -> None:
    membership = group.membership
    members = {"me": dict(membership.metadata())["sessioned"]}
    answers = membership.perform_assignment("me", "sessioned", members)
    whole = decode_assignment(answers["me"])
    assert sorted(whole.assigned) == [C, T0, T1]
    assert membership.owner_url(InstanceId("c", 1)) == URL
    membership.on_join_complete(1, "me", "sessioned", answers["me"])
    assert membership.is_leader
    assert membership.leader_url == URL
    membership.on_join_prepare()
    assert membership.owner_url(InstanceId("c", 1)) is None


def test_a_leader_assigns_what_it_had_read_when_it_joined(group: Group) -> None:
    """What it reads while the others join counts only in the next round."""
    offers = dict(group.membership.metadata())
    offset = group.store.snapshot().offset
    group.store.put_connector_config("late", {"name": "late"})
    answers = group.membership.perform_assignment("me", "sessioned", {"me": offers["sessioned"]})
    assignment = decode_assignment(answers["me"])
    assert assignment.config_offset == offset
    assert ("late", -1) not in assignment.assigned


def test_a_worker_tells_of_no_configs_that_it_has_read_but_does_not_act_on() -> None:
    """Others begin what it gave up as soon as it says to have read of that."""
    group = Group()
    group.acts_on = group.store.snapshot()
    group.store.put_task_configs("c", [{}])
    (_, metadata), *_ = group.membership.metadata()
    assert group.followed == 1
    assert decode_metadata(metadata).config_offset == group.acts_on.offset
    assert group.acts_on.offset < group.store.snapshot().offset


@pytest.mark.parametrize(("members", "leads_others"), [(("me",), False), (("me", "other"), True)])
def test_a_leader_knows_whether_others_would_take_its_work_over(
    group: Group, members: tuple[str, ...], *, leads_others: bool
) -> None:
    protocol, data = group.membership.metadata()[0]
    answers = group.membership.perform_assignment("me", protocol, dict.fromkeys(members, data))
    group.membership.on_join_complete(1, "me", protocol, answers["me"])
    assert group.membership.leads_others is leads_others
    group.join(C)
    assert not group.membership.leads_others
