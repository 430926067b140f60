"""Lanes: nobody of a shard that ended can write, nobody who copies is fenced, and what may have
been committed is read before it is copied again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from hypothesis import given
from hypothesis import strategies as st

from connect.clients.transactions.coordinator import ProducerIdentity
from connect.errors import ConfigError, ConnectError, RetriableError
from connect.protocol.messages import TopicPartition
from connect.runtime.offset_stores import task_transactional_id
from connect.runtime.states import InstanceId
from connectors.mirror.copy.transactions.executor_ids import (
    LANES,
    MOST_BLOCKS,
    ClaimedProducer,
    lane_id,
)
from connectors.mirror.spark.copy.executor_ids import (
    ExecutorTransactionalIds,
    Positions,
)
from tests.support.fake_clock import FakeClock

KEY, OTHER = ("t", 0), ("t", 1)


class Target:
    """The target's coordinators, and the offsets that executors committed. Requests are answered
    when a test says so."""

    def __init__(self, blocks: int | None = 0) -> None:
        self.earlier_blocks = blocks
        self.epochs: dict[str, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.claims: list[tuple[list[str], Future[Mapping[str, ProducerIdentity]]]] = []
        self.confirms: list[Future[None]] = []
        self.reads: list[tuple[list[TopicPartition], Future[Positions]]] = []

    # `LaneClaims`.

    def blocks(self, task_id: str) -> Future[int | None]:
        answer: Future[int | None] = Future()
        answer.set_result(self.earlier_blocks)
        return answer

    def claim(self, names: Sequence[str]) -> Future[Mapping[str, ProducerIdentity]]:
        self.claims.append((list(names), Future()))
        return self.claims[-1][1]

    def confirm(self) -> Future[None]:
        self.confirms.append(Future())
        return self.confirms[-1]

    def read(self, keys: Sequence[TopicPartition]) -> Future[Positions]:
        self.reads.append((list(keys), Future()))
        return self.reads[-1][1]

    def close(self) -> None:
        """There is nothing to close."""

    # What a test has happen.

    def claimed(self) -> list[str]:
        names, answer = self.claims.pop(0)
        for name in names:
            self.epochs[name] = self.epochs.get(name, -1) + 1
        answer.set_result({name: ProducerIdentity(7, self.epochs[name]) for name in names})
        return names

    def read_now(self) -> list[TopicPartition]:
        keys, answer = self.reads.pop(0)
        answer.set_result({key: self.committed.get(key) for key in keys})
        return keys

    def writes(self, claim: ClaimedProducer) -> bool:
        """Whether somebody with this claim is not fenced."""
        return self.epochs[claim.transactional_id] == claim.producer.epoch

    def commit(self, claim: ClaimedProducer, key: TopicPartition, position: int) -> None:
        if self.writes(claim):
            self.committed[key] = position


class Task:
    """The lanes of one task, and what is settled."""

    def __init__(self, blocks: int | None = 0) -> None:
        self.target, self.clock = Target(blocks), FakeClock()
        self.settled: list[dict[TopicPartition, int | None]] = []
        self.unsure: set[TopicPartition] = set()
        self.ids = ExecutorTransactionalIds(
            "g-c-0", self.target, self._settle, self._post, self.clock
        )
        self.turn()  # The brokers say at once how many blocks there are.

    def _post(self, command: Callable[[], None]) -> None:
        command()

    def _settle(self, positions: Positions) -> None:
        self.settled.append(dict(positions))
        self.unsure -= positions.keys()

    def turn(self) -> None:
        self.ids.turn(sorted(self.unsure))

    def begin(self) -> None:
        self.turn()
        self.target.claimed()
        self.target.confirms.pop().set_result(None)

    def confirm(self) -> None:
        self.target.confirms.pop(0).set_result(None)


def test_at_its_start_a_task_claims_all_lanes_before_its_first_shard() -> None:
    task = Task()
    task.unsure = {KEY}
    assert task.ids.ready == 0
    task.turn()
    assert task.target.claimed() == [lane_id("g-c-0", n) for n in range(LANES)]
    # Another run may have claimed them since, and then it fenced these.
    assert task.ids.ready == 0
    task.turn()
    assert not task.target.reads
    task.confirm()
    assert task.ids.ready == LANES
    task.turn()
    assert task.target.read_now() == [KEY]
    assert task.settled == [{KEY: None}]


def test_where_all_lanes_are_in_flight_a_task_claims_another_block() -> None:
    task = Task()
    task.begin()
    for _ in range(LANES - 1):
        task.ids.take()
    task.ids.grow()
    task.turn()
    assert not task.target.claims, "one is ready"
    task.ids.take()
    task.ids.grow()
    task.ids.grow()
    task.turn()
    assert task.target.claimed() == [lane_id("g-c-0", n) for n in range(LANES, 2 * LANES)]
    assert task.ids.ready == 0, "another run may be the latest"
    task.ids.grow()
    task.confirm()
    assert task.ids.ready == LANES
    task.turn()
    assert not task.target.claims


def test_a_new_run_claims_all_blocks_of_earlier_ones() -> None:
    task = Task(blocks=3)
    task.begin()
    assert task.ids.ready == 3 * LANES


def test_there_is_one_block_where_brokers_cannot_tell_how_many_there_are() -> None:
    task = Task(blocks=None)
    task.begin()
    for _ in range(LANES):
        task.ids.take()
    task.ids.grow()
    task.turn()
    assert not task.target.claims


def test_blocks_have_a_limit() -> None:
    task = Task(blocks=MOST_BLOCKS)
    task.begin()
    for _ in range(MOST_BLOCKS * LANES):
        task.ids.take()
    task.ids.grow()
    task.turn()
    assert not task.target.claims


def test_a_lane_in_flight_is_not_claimed_and_no_other_shard_has_it() -> None:
    task = Task()
    task.begin()
    claims = [task.ids.take() for _ in range(LANES - 1)]
    assert len({claim.transactional_id for claim in claims}) == LANES - 1
    for claim in claims[: LANES // 2]:
        task.ids.ended(claim)
    task.turn()
    task.target.claimed()
    assert [task.target.writes(claim) for claim in claims] == [
        number >= LANES // 2 for number in range(LANES - 1)
    ]


def test_lanes_of_shards_that_ended_are_claimed_some_at_a_time_while_others_are_ready() -> None:
    task = Task()
    task.begin()
    for _ in range(LANES // 8 - 1):
        task.ids.ended(task.ids.take())
        task.turn()
    assert not task.target.claims
    task.ids.ended(task.ids.take())
    task.turn()
    assert len(task.target.claimed()) == LANES // 8


def test_where_no_lane_is_ready_a_single_one_is_claimed() -> None:
    task = Task()
    task.begin()
    claims = [task.ids.take() for _ in range(LANES)]
    assert task.ids.ready == 0
    task.ids.ended(claims[5])
    task.turn()
    assert task.target.claimed() == [claims[5].transactional_id]


def test_a_partition_in_doubt_is_read_only_after_its_executor_is_fenced() -> None:
    task = Task()
    task.begin()
    claim = task.ids.take()
    task.ids.ended(claim)  # its result was lost
    task.unsure = {KEY}
    task.turn()
    assert not task.target.reads
    task.target.commit(claim, KEY, 50)  # which the executor could until now
    task.target.claimed()
    task.target.commit(claim, KEY, 60)
    task.confirm()
    task.turn()
    task.target.read_now()
    assert task.settled == [{KEY: 50}]


def test_a_partition_that_is_in_doubt_during_a_claim_waits_for_the_next() -> None:
    task = Task()
    task.begin()
    first, second = task.ids.take(), task.ids.take()
    task.ids.ended(first)
    task.unsure = {KEY}
    task.turn()
    task.ids.ended(second)
    task.unsure.add(OTHER)
    assert task.target.claimed() == [first.transactional_id]
    task.confirm()
    task.turn()
    assert task.target.read_now() == [KEY]
    assert task.target.claimed() == [second.transactional_id]
    task.confirm()
    task.turn()
    assert task.target.read_now() == [OTHER]


def test_claims_go_on_while_a_read_waits_for_the_transaction_of_a_lost_shard() -> None:
    task = Task()
    task.begin()
    first, lost = task.ids.take(), task.ids.take()
    task.ids.ended(first)
    task.unsure = {KEY}
    task.turn()
    task.target.claimed()
    task.confirm()
    task.turn()
    assert len(task.target.reads) == 1
    task.ids.ended(lost)
    task.unsure.add(OTHER)
    task.turn()
    assert task.target.claimed() == [lost.transactional_id]
    task.confirm()
    assert task.target.read_now() == [KEY]


def test_a_task_that_was_replaced_has_no_lane() -> None:
    task = Task()
    task.turn()
    task.target.claimed()
    fenced = ConfigError("another run is the latest")
    task.target.confirms.pop().set_exception(fenced)
    assert task.ids.ready == 0
    assert task.ids.failure is fenced
    task.turn()
    assert not task.target.claims


def test_a_claim_that_failed_is_repeated_after_a_while() -> None:
    task = Task()
    task.turn()
    error: ConnectError = RetriableError("no coordinator")
    task.target.claims.pop()[1].set_exception(error)
    assert "no coordinator" in (task.ids.trouble or "")
    task.turn()
    assert not task.target.claims
    task.clock.advance(1.0)
    task.turn()
    task.target.claimed()
    task.confirm()
    assert (task.ids.ready, task.ids.trouble) == (LANES, None)


@given(st.integers(0, 10_000))
def test_whatever_happens_only_those_who_are_in_flight_can_write(seed: int) -> None:
    """In any order of claims, confirmations, reads, ends and losses; and what is settled is what
    was committed last."""
    task, draw = Task(), random.Random(seed)
    task.begin()
    in_flight: dict[TopicPartition, ClaimedProducer] = {}
    ended: list[tuple[TopicPartition, ClaimedProducer]] = []
    position = 0
    for _ in range(60):
        act = draw.randrange(7)
        if act == 0 and task.ids.ready and (free := _free(task, in_flight)):
            in_flight[free] = task.ids.take()
        elif act == 1 and in_flight:
            key = draw.choice(sorted(in_flight))
            claim = in_flight.pop(key)
            ended.append((key, claim))
            task.ids.ended(claim)
            task.unsure.add(key)
        elif act == 2 and task.target.claims:
            task.target.claimed()
        elif act == 3 and task.target.confirms:
            task.confirm()
        elif act == 4 and task.target.reads:
            task.target.read_now()
        elif act == 5:
            task.turn()
        else:  # Everybody tries to write, those who were given up, too.
            position += 1
            for key, claim in [*in_flight.items(), *ended]:
                before = task.target.committed.get(key)
                task.target.commit(claim, key, position)
                wrote = task.target.committed.get(key) != before
                owner = in_flight.get(key)
                assert not wrote or claim is owner or key in task.unsure
        assert all(task.target.writes(claim) for claim in in_flight.values())
        if task.settled:
            for key, found in task.settled.pop().items():
                assert found == task.target.committed.get(key)


def _free(task: Task, in_flight: Mapping[TopicPartition, ClaimedProducer]) -> TopicPartition | None:
    every: list[TopicPartition] = [("t", number) for number in range(4)]
    return next((key for key in every if key not in in_flight and key not in task.unsure), None)


def test_no_task_of_any_connector_has_the_id_of_a_lane() -> None:
    lane = lane_id(task_transactional_id("g", InstanceId("c", 0)), 3)
    assert lane == "g-c-0.lane-3-spark"
    assert not lane.rpartition("-")[2].isdigit()
