"""Groups' states, from the listing or, where old brokers list none, from their coordinators."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection
from types import SimpleNamespace

import pytest

from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.groups import consumer_groups
from connect.clients.groups.consumer_groups import ConsumerGroups
from connect.clients.librdkafka import factory
from connect.clock import Deadline
from connect.errors import ConnectError, RetriableBrokerError

NOT_COORDINATOR = 16


class Lister:
    """confluent-kafka's admin client, as far as it lists groups."""

    def __init__(self, **states: str) -> None:
        self._states = states

    def list_consumer_groups(self, request_timeout: float) -> concurrent.futures.Future[object]:
        future: concurrent.futures.Future[object] = concurrent.futures.Future()
        listings = [
            SimpleNamespace(group_id=group, state=SimpleNamespace(name=state))
            for group, state in self._states.items()
        ]
        future.set_result(SimpleNamespace(valid=listings, errors=[]))
        return future

    def poll(self, timeout: float) -> int:
        return 0


def groups(monkeypatch: pytest.MonkeyPatch, lister: Lister) -> ConsumerGroups:
    monkeypatch.setattr(factory, "admin_client", lambda *_, **__: lister)
    return ConsumerGroups({"bootstrap.servers": "127.0.0.1:1"})


def test_states_that_brokers_do_not_list_are_asked_for_where_they_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []

    def fetch(
        _settings: WireSettings, wanted: Collection[str], _deadline: Deadline
    ) -> dict[str, str | ConnectError]:
        asked.append(list(wanted))
        return dict(zip(wanted, ("Empty", "Stable"), strict=True))

    monkeypatch.setattr(consumer_groups, "_fetch_states", fetch)
    of = groups(monkeypatch, Lister(a="UNKNOWN", b="UNKNOWN", c="UNKNOWN", d="DEAD"))
    found = of.list_groups(Deadline(5), ["a", "b", "d", "missing"])
    assert {group: listing.state for group, listing in found.items()} == {
        "a": "EMPTY",
        "b": "STABLE",
        "c": "UNKNOWN",
        "d": "DEAD",
    }
    assert found["a"].empty
    assert not found["b"].empty
    assert asked == [["a", "b"]]


def test_a_state_that_cannot_be_asked_for_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = error_from_code(NOT_COORDINATOR, "Describing group a")
    monkeypatch.setattr(consumer_groups, "_fetch_states", lambda *_: {"a": refused})
    of = groups(monkeypatch, Lister(a="UNKNOWN"))
    with pytest.raises(RetriableBrokerError, match="Describing group a"):
        of.list_groups(Deadline(5), ["a"])
