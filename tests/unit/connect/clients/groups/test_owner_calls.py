"""Calls to the thread that owns a group member, and interrupts of its wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from kafka.net.selector import NetworkSelector

from connect.clients.groups.owner_calls import OwnerCalls


class SetInBetween(threading.Event):
    """Another thread sets it right after somebody saw that it is not set."""

    def is_set(self) -> bool:
        seen = super().is_set()
        if not seen:
            self.set()
        return seen


@pytest.fixture
def calls() -> Iterator[OwnerCalls]:
    selector = NetworkSelector()
    yield OwnerCalls(selector)
    selector.close()


def test_an_interrupt_ends_the_wait_and_is_taken_once(calls: OwnerCalls) -> None:
    calls.interrupt()
    assert calls.next(10)
    assert calls.take_interrupt()
    assert not calls.take_interrupt()


def test_a_wake_up_is_no_interrupt(calls: OwnerCalls) -> None:
    calls.wake()
    assert calls.next(10)
    assert not calls.take_interrupt()


def test_an_interrupt_is_not_lost_while_the_owner_looks_for_one(
    calls: OwnerCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_interrupted", SetInBetween())
    assert not calls.take_interrupt()
    assert calls.take_interrupt()
