"""The loop runs mail, timers and sockets on one thread, in order, and never one that is gone."""

from __future__ import annotations

import math
import selectors
import socket
import threading
from collections.abc import Iterator

import pytest

from connect.clients.wire.channel import BufferPool, Channel
from connect.clients.wire.connection import WireConnection
from connect.clients.wire.selector_loop import SelectorLoop
from tests.support.fake_clock import FakeClock

LONG_S = 1_000.0
"""No test is given that long: what waits so long fails."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def loop(clock: FakeClock) -> Iterator[SelectorLoop]:
    made = SelectorLoop(clock)
    yield made
    made.close()


def channel() -> tuple[Channel, socket.socket]:
    ours, theirs = socket.socketpair()
    return Channel(WireConnection(ours, "broker", 9, "c"), "c", BufferPool(0)), theirs


def test_timers_run_when_due_in_order_and_not_when_cancelled(
    loop: SelectorLoop, clock: FakeClock
) -> None:
    ran: list[str] = []
    loop.after(2.0, lambda: ran.append("later"))
    loop.after(1.0, lambda: ran.append("first"))
    loop.after(1.0, lambda: ran.append("second"))
    loop.after(1.0, lambda: ran.append("never")).cancel()
    loop.turn(0.0)
    assert ran == []
    clock.advance(1.0)
    loop.turn(0.0)
    assert ran == ["first", "second"]
    clock.advance(1.0)
    loop.turn(0.0)
    assert ran == ["first", "second", "later"]


def test_mail_of_other_threads_ends_the_wait(loop: SelectorLoop) -> None:
    ran = threading.Event()
    sender = threading.Thread(target=lambda: loop.post(ran.set))
    sender.start()
    while not ran.is_set():
        loop.turn(LONG_S)
    sender.join()
    assert ran.is_set()


def test_mail_that_mail_sends_is_run_without_waiting(loop: SelectorLoop) -> None:
    ran: list[int] = []
    loop.post(lambda: loop.post(lambda: ran.append(1)))
    loop.turn(LONG_S)
    assert ran == [1]


def test_a_channel_is_watched_for_writing_only_while_it_has_something_to_write(
    loop: SelectorLoop,
) -> None:
    watched, broker = channel()
    masks: list[int] = []
    loop.watch(watched, masks.append)
    loop.turn(0.0)
    assert masks == []
    watched.send(3, 9, [b"x" * 5_000_000], 5_000_000, 1.0, lambda _: None)
    loop.update(watched)
    broker.recv(1_000_000)
    loop.turn(0.0)
    assert masks == [2]
    watched.close()
    broker.close()


def test_a_channel_that_is_not_watched_any_more_is_not_called(loop: SelectorLoop) -> None:
    """Both sockets are ready in the same turn, and whichever comes first closes the other."""
    (one, broker_one), (two, broker_two) = channel(), channel()
    called: list[int] = []

    def close(other: Channel) -> None:
        called.append(1)
        loop.unwatch(other)
        other.close()

    loop.watch(one, lambda _: close(two))
    loop.watch(two, lambda _: close(one))
    broker_one.send(b"x")
    broker_two.send(b"x")
    loop.turn(0.0)
    assert called == [1]
    for end in (one, two, broker_one, broker_two):
        end.close()


def test_after_closing_waking_and_posting_do_nothing(clock: FakeClock) -> None:
    loop = SelectorLoop(clock)
    loop.close()
    loop.close()
    loop.wake()
    loop.post(lambda: pytest.fail("ran after close"))


def test_one_action_follows_each_callback(loop: SelectorLoop, clock: FakeClock) -> None:
    ran: list[str] = []
    loop.after_each(lambda: ran.append("then"))
    one, broker = channel()
    loop.watch(one, lambda _: ran.append("socket"))
    broker.send(b"x")
    loop.soon(lambda: ran.append("mail"))
    loop.after(0.0, lambda: ran.append("timer"))
    loop.turn(0.0)
    assert ran == ["mail", "then", "timer", "then", "socket", "then"]
    for end in (one, broker):
        end.close()


def readable(loop: SelectorLoop) -> bool:
    """Whether another poller would wake for it."""
    descriptor = loop.descriptor()
    assert descriptor is not None
    with selectors.DefaultSelector() as outer:
        outer.register(descriptor, selectors.EVENT_READ)
        return bool(outer.select(0.0))


def test_its_descriptor_is_readable_while_a_socket_is(loop: SelectorLoop) -> None:
    ours, theirs = channel()
    loop.watch(ours, lambda mask: None)
    assert not readable(loop)
    theirs.send(b"x")
    assert readable(loop)
    loop.turn(0.0)
    assert readable(loop), "the byte was not read"
    loop.unwatch(ours)
    assert not readable(loop)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("how", ["wake", "post"])
def test_its_descriptor_is_readable_once_after_a_wake(loop: SelectorLoop, how: str) -> None:
    if how == "wake":
        loop.wake()
    else:
        loop.post(lambda: None)
    assert readable(loop)
    loop.turn(0.0)
    assert not readable(loop)


def test_it_says_when_it_has_something_to_do_without_its_descriptor(
    loop: SelectorLoop, clock: FakeClock
) -> None:
    assert loop.due_in_s() == math.inf
    loop.after(3.0, lambda: None)
    loop.after(5.0, lambda: None)
    clock.advance(1.0)
    assert loop.due_in_s() == 2.0
    clock.advance(2.5)
    assert loop.due_in_s() == 0.0
    loop.turn(0.0)
    assert loop.due_in_s() == 1.5
    loop.soon(lambda: None)
    assert loop.due_in_s() == 0.0
    assert not readable(loop)


def test_a_callback_that_takes_long_does_not_change_when_sockets_were_polled(
    loop: SelectorLoop, clock: FakeClock
) -> None:
    """What came meanwhile is not seen yet, so that nobody was silent."""
    clock.advance(1.0)
    polled_at = clock.monotonic()
    loop.post(lambda: None)
    loop.turn(0.0)
    assert loop.polled_at == polled_at
    ours, theirs = channel()
    loop.watch(ours, lambda _: clock.advance(10.0))
    theirs.send(b"x")
    loop.turn(0.0)
    assert loop.polled_at == polled_at
    loop.unwatch(ours)
    ours.close()
    theirs.close()
