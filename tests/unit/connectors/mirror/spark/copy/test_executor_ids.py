"""Lanes: each producer that was claimed is given out once, and no two shards share one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.clients.transactions.coordinator import ProducerIdentity
from connect.runtime.offset_stores import task_transactional_id
from connect.runtime.states import InstanceId
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer, lane_id
from connectors.mirror.spark.copy.executor_ids import ClaimedIds

COUNT = 8


class Brokers:
    """Who has which id: the last who claimed it."""

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}

    def claim(self, names: list[str]) -> dict[str, ProducerIdentity]:
        for name in names:
            self.epochs[name] = self.epochs.get(name, -1) + 1
        return {name: ProducerIdentity(hash(name), self.epochs[name]) for name in names}

    def writes(self, claim: ClaimedProducer) -> bool:
        """Whether somebody with this claim is not fenced out."""
        return self.epochs[claim.transactional_id] == claim.producer.epoch


@given(st.lists(st.integers(min_value=1, max_value=COUNT), max_size=30))
def test_nobody_of_an_earlier_batch_can_write_when_the_next_is_given_out(sizes: list[int]) -> None:
    book, brokers = ClaimedIds("g-c-0", COUNT), Brokers()
    earlier: list[ClaimedProducer] = []
    for size in sizes:
        claimed = brokers.claim(book.missing)
        book.claimed(claimed)
        assert book.missing == []
        assert not any(brokers.writes(claim) for claim in earlier)
        given_out = book.take(size)
        assert len({claim.transactional_id for claim in given_out}) == size
        assert all(brokers.writes(claim) for claim in given_out)
        assert sorted(book.missing) == sorted(claim.transactional_id for claim in given_out)
        earlier += given_out


def test_at_its_start_a_task_claims_all_that_there_can_be() -> None:
    assert ClaimedIds("g-c-0", COUNT).missing == [lane_id("g-c-0", n) for n in range(COUNT)]
    with pytest.raises(ValueError, match="1 lanes are needed, but only 0 are claimed"):
        ClaimedIds("g-c-0", COUNT).take(1)


def test_no_task_of_any_connector_has_the_id_of_a_lane() -> None:
    lane = lane_id(task_transactional_id("g", InstanceId("c", 0)), 3)
    assert lane == "g-c-0.lane-3-spark"
    assert not lane.rpartition("-")[2].isdigit()
