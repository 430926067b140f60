"""The simulated coordinator answers as Kafka's does, and the product's client copes with it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TypeVar

import pytest

from connect.clients.transactions.producer import ProducerFenced
from connect.protocol.error_codes import code_facts
from tests.simulation.kafka import codes
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.coordinator import Coordinator
from tests.simulation.kafka.log import ABORT, COMMIT
from tests.simulation.kafka.network import Network
from tests.simulation.kafka.transactions import SimulatedClient
from tests.simulation.kafka.virtual_time import VirtualTime

T = TypeVar("T")
KEY = ("copy", 0)
_LONG_S = 60.0


class Coordinated:
    def __init__(self) -> None:
        self.time = VirtualTime()
        rng = random.Random(1)
        network = Network(self.time, rng)
        self.cluster = Cluster("target", network, rng, 2, lambda _: None)
        self.cluster.create("copy", 1)
        self.coordinator = Coordinator(self.cluster)
        self.ended: list[bool] = []
        self.coordinator.on_ended = self.ended.append
        self.clients: list[SimulatedClient] = []

    def client(self) -> SimulatedClient:
        self.clients.append(SimulatedClient(self.coordinator, "id", 600.0))
        self.done(self.clients[-1].claim())
        return self.clients[-1]

    def done(self, future: Future[T]) -> T:
        self.time.run_until(self.time.monotonic() + _LONG_S)
        return future.result(timeout=0)


@pytest.fixture
def made() -> Iterator[Coordinated]:
    coordinated = Coordinated()
    yield coordinated
    for client in coordinated.clients:
        client.die()


@pytest.mark.parametrize("request_name", codes.__all__)
def test_what_brokers_answer_is_retriable(request_name: str) -> None:
    listed = set(getattr(codes, request_name)) - {codes.UNKNOWN_SERVER_ERROR}
    assert listed
    assert [code for code in listed if not code_facts(code).retriable] == []


def test_requests_whose_answers_are_lost_have_their_effect_once(made: Coordinated) -> None:
    made.coordinator.faults.lost = 0.7
    client = made.client()
    for _ in range(10):
        assert made.done(client.add([KEY])) == {KEY: 0}
        made.done(client.commit())
    before = client.identity
    made.done(client.add([KEY]))
    made.done(client.abort())
    assert client.identity != before
    assert made.ended == [True] * 10 + [False]


def test_retriable_codes_are_tried_again_until_they_end(made: Coordinated) -> None:
    client = made.client()
    made.coordinator.faults.refused = 1.0
    added = client.add([KEY])
    made.time.run_until(made.time.monotonic() + _LONG_S)
    assert not added.done()
    assert client.trouble is not None
    made.coordinator.faults.refused = 0.0
    assert made.done(added) == {KEY: 0}
    assert client.trouble is None


def test_the_next_owner_of_the_id_fences_the_one_before(made: Coordinated) -> None:
    before = made.client()
    made.done(before.add([KEY]))
    made.client()
    assert made.ended == [False]
    with pytest.raises(ProducerFenced):
        made.done(before.commit())


def test_an_end_that_was_decided_is_not_decided_again(made: Coordinated) -> None:
    client = made.client()
    made.done(client.add([KEY]))
    identity = client.identity.producer_id, client.identity.epoch
    assert made.coordinator.end("id", identity, COMMIT) == 0
    assert made.coordinator.end("id", identity, COMMIT) == codes.CONCURRENT_TRANSACTIONS
    made.time.run_until(made.time.monotonic() + _LONG_S)
    assert made.coordinator.end("id", identity, COMMIT) == 0
    assert made.coordinator.end("id", identity, ABORT) != 0
    assert made.ended == [True]
