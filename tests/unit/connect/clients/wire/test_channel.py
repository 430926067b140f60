"""A channel cuts the byte stream into responses wherever the socket cut it, and notices lies."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.clients.wire.channel import BufferPool, Channel, Response
from connect.clients.wire.connection import WireConnection
from connect.errors import BrokerUnavailable, CorruptData

MIB = 1024 * 1024


class CountingSocket(socket.socket):
    """Counts how often it is read, and how often several buffers are written to it."""

    reads = writes = 0

    def sendmsg(self, *arguments: Any) -> int:
        self.writes += 1
        return super().sendmsg(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        self.reads += 1
        return super().recv_into(*arguments)


class Line:
    """A channel and the broker's end of its socket."""

    def __init__(self, send_buffer: int | None = None) -> None:
        pair, self.broker = socket.socketpair()
        self.socket = ours = CountingSocket(fileno=pair.detach())
        if send_buffer is not None:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        self.broker.setblocking(False)
        self.channel = Channel(WireConnection(ours, "broker", 9, "c"), "c", BufferPool(8 * MIB))
        self.answers: list[bytes] = []

    def ask(self, *body: bytes, deadline: float = 1.0) -> None:
        self.channel.send(3, 9, body, sum(map(len, body)), deadline, self._answered)

    def _answered(self, response: Response) -> None:
        self.answers.append(bytes(response.body))

    def received(self) -> bytes:
        """All that reached the broker so far."""
        data = bytearray()
        try:
            while part := self.broker.recv(1 << 20):
                data += part
        except BlockingIOError:
            pass
        return bytes(data)

    def close(self) -> None:
        self.channel.close()
        self.broker.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


def response(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


def request(correlation: int, body: bytes) -> bytes:
    """Frame size, header v1 (api 3, version 9, correlation id, client id "c"), body."""
    return struct.pack(">ihhih", 11 + len(body), 3, 9, correlation, 1) + b"c" + body


def test_a_request_is_its_buffers_behind_a_header(line: Line) -> None:
    line.ask(b"one", b"", b"two")
    line.ask(b"three")
    assert line.received() == request(1, b"onetwo") + request(2, b"three")
    assert line.channel.in_flight == 2
    assert not line.channel.wants_write


def test_requests_that_are_queued_together_take_one_system_call(line: Line) -> None:
    for body in (b"one", b"two"):
        line.channel.send(3, 9, [body], len(body), 1.0, line._answered, flush=False)
    assert line.received() == b""
    line.channel.flush()
    assert line.received() == request(1, b"one") + request(2, b"two")
    assert line.socket.writes == 1


def test_what_the_socket_does_not_take_is_sent_later() -> None:
    line = Line(send_buffer=4_096)
    try:
        bodies = [bytes([n]) * 100_000 for n in range(3)]
        for body in bodies:
            line.ask(body[:7], body[7:50_000], body[50_000:])
        assert line.channel.wants_write
        data = line.received()
        while line.channel.wants_write:
            line.channel.flush()
            data += line.received()
        assert data == b"".join(request(n + 1, body) for n, body in enumerate(bodies))
    finally:
        line.close()


@given(
    bodies=st.lists(
        st.binary(max_size=40) | st.integers(41, 4_000).map(lambda size: b"." * size),
        min_size=1,
        max_size=8,
    ),
    cuts=st.lists(st.integers(1, 30) | st.integers(31, 3_000), max_size=40),
)
def test_responses_are_whole_however_they_arrive(bodies: list[bytes], cuts: list[int]) -> None:
    line = Line()
    try:
        for _ in bodies:
            line.ask(b"?")
        stream = b"".join(response(n + 1, body) for n, body in enumerate(bodies))
        for cut in [*cuts, len(stream)]:
            line.broker.sendall(stream[:cut])
            stream = stream[cut:]
            # A few a turn; the socket stays readable while there are more.
            for _ in range(2 * len(bodies)):
                line.channel.receive()
        assert line.answers == bodies
        assert line.channel.in_flight == 0
        assert line.channel.next_deadline is None
    finally:
        line.close()


def test_small_responses_that_came_together_take_one_system_call(line: Line) -> None:
    for _ in range(3):
        line.ask(b"?")
    line.broker.sendall(b"".join(response(n + 1, b"." * 60) for n in range(3)))
    line.channel.receive()
    assert len(line.answers) == 3
    assert line.socket.reads == 1


def test_large_responses_land_in_pooled_buffers() -> None:
    pool = BufferPool(8 * MIB)
    buffer = pool.acquire(3 * MIB + 1)
    assert len(buffer) == 3 * MIB + 64 * 1024
    pool.release(buffer)
    assert pool.acquire(3 * MIB) is buffer
    small = pool.acquire(10)
    pool.release(small)
    assert pool.acquire(10) is not small


def test_a_response_takes_no_buffer_that_is_much_larger() -> None:
    pool = BufferPool(8 * MIB)
    buffer = pool.acquire(4 * MIB)
    pool.release(buffer)
    assert len(pool.acquire(MIB)) == MIB


def test_a_new_buffer_replaces_kept_ones() -> None:
    pool = BufferPool(8 * MIB)
    kept = [pool.acquire(2 * MIB) for _ in range(4)]
    for buffer in kept:
        pool.release(buffer)
    pool.acquire(4 * MIB)
    again = [pool.acquire(2 * MIB) for _ in range(4)]
    assert sum(any(each is buffer for buffer in kept) for each in again) == 2


def test_the_buffers_that_were_released_last_are_kept() -> None:
    pool = BufferPool(2 * MIB)
    old, *new = [pool.acquire(MIB) for _ in range(3)]
    for buffer in (old, *new):
        pool.release(buffer)
    assert {id(pool.acquire(MIB)) for _ in range(2)} == {id(each) for each in new}


def test_a_broker_that_answers_fast_leaves_room_for_others(line: Line) -> None:
    for _ in range(10):
        line.ask(b"?")
    line.broker.sendall(b"".join(response(n + 1, b"." * 200) for n in range(10)))
    line.channel.receive()
    assert 0 < len(line.answers) < 10
    for _ in range(3):
        line.channel.receive()
    assert len(line.answers) == 10


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (response(7, b""), "matches no request in flight"),
        (response(1, b"") * 2, "matches no request in flight"),
        (struct.pack(">i", 3), "invalid response size"),
        (struct.pack(">i", -1), "invalid response size"),
        (struct.pack(">i", 0x7FFFFFFF), "invalid response size"),
    ],
)
def test_what_no_broker_sends_is_refused(line: Line, stream: bytes, complaint: str) -> None:
    line.ask(b"?")
    line.broker.sendall(stream)
    with pytest.raises(CorruptData, match=complaint):
        line.channel.receive()


def test_a_closed_connection_is_noticed_on_both_ways(line: Line) -> None:
    line.ask(b"?")
    line.broker.close()
    with pytest.raises(BrokerUnavailable):
        line.channel.receive()
    with pytest.raises(BrokerUnavailable):
        line.ask(b"?")


def test_a_callback_may_close_the_channel(line: Line) -> None:
    line.channel.send(3, 9, [], 0, 1.0, lambda _: line.channel.close())
    line.broker.sendall(response(1, b"") + response(2, b""))
    line.channel.receive()
    assert line.channel.in_flight == 0


def test_time_that_a_quota_takes_is_given_back(line: Line) -> None:
    line.ask(b"?", deadline=5.0)
    line.channel.postpone(2.5)
    assert line.channel.next_deadline == 7.5
