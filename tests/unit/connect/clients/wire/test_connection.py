"""A raw connection against peers that misbehave: every fault has its error, and none hangs."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataRequest

from connect.clients.config.settings import WireSettings
from connect.clients.wire import tcp
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.connection import MAX_FRAME_BYTES, WireConnection, open_connection
from connect.clock import Deadline
from connect.errors import (
    BrokerError,
    BrokerUnavailable,
    ConnectError,
    CorruptData,
    DeadlineExceeded,
)
from tests.unit.connect.clients.hostile_peer import (
    HostilePeer,
    api_versions_frame,
    frame,
    unused_port,
)

METADATA = 3
SHORT_S = 0.05
AMPLE_S = 10.0
SETTINGS = WireSettings(bootstrap=(), client_id="tester")
# MetadataResponse v1 without brokers and topics: [] brokers, controller 7, [] topics.
EMPTY_METADATA = struct.pack(">iii", 0, 7, 0)


class Pair:
    """A connection, and the other end of its socket."""

    def __init__(self, cancellation: Cancellation | None = None) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.peer.settimeout(AMPLE_S)
        self.connection = WireConnection(ours, "broker", 9092, "tester", cancellation)
        self.connection.api_versions = {METADATA: (0, 1)}

    def call(self, seconds: float = AMPLE_S) -> object:
        return self.connection.call(MetadataRequest(topics=[]), Deadline(seconds))

    def close(self) -> None:
        self.connection.close()
        self.peer.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


def test_an_answer_is_decoded_in_the_version_both_sides_know(pair: Pair) -> None:
    pair.peer.sendall(frame(1, EMPTY_METADATA))

    response = pair.connection.call(MetadataRequest(topics=[]), Deadline(AMPLE_S))

    assert response.controller_id == 7
    size, key, version, correlation = struct.unpack(">ihhi", pair.peer.recv(12))
    assert (key, version, correlation) == (METADATA, 1, 1)
    assert pair.peer.recv(size)[:8] == b"\x00\x06tester"


def test_correlation_ids_count_and_no_bytes_are_left_between_calls(pair: Pair) -> None:
    pair.peer.sendall(frame(1, EMPTY_METADATA) + frame(2, EMPTY_METADATA))
    pair.call()
    pair.call()
    with pytest.raises(BlockingIOError):
        pair.connection.sock.recv(1)


def test_a_given_buffer_is_received_into_and_made_longer_as_needed(pair: Pair) -> None:
    buffer = bytearray(b"xxxx" * 4)
    for number, body in enumerate([b"short", b"s" * 200_000, b"again"], 1):
        pair.connection.send_raw(b"asked", number, Deadline(AMPLE_S), "Fetch")
        answering = threading.Thread(target=pair.peer.sendall, args=(frame(number, body),))
        answering.start()
        view = pair.connection.receive_raw(Deadline(AMPLE_S), "Fetch", buffer)
        answering.join(AMPLE_S)
        assert view == body
        assert view.obj is buffer
        view.release()
    assert len(buffer) == 200_004


def test_an_answer_that_arrives_byte_by_byte_is_put_together(pair: Pair) -> None:
    def drip() -> None:
        pair.peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        for value in frame(1, EMPTY_METADATA):
            pair.peer.sendall(bytes([value]))

    thread = threading.Thread(target=drip)
    thread.start()
    pair.call()
    thread.join(AMPLE_S)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (frame(2, EMPTY_METADATA), "correlation id 1, but its response has 2"),
        (frame(1, b"", size=-1), "a response of -1 bytes"),
        (frame(1, b"", size=3), "a response of 3 bytes"),
        (frame(1, b"", size=MAX_FRAME_BYTES + 1), f"a response of {MAX_FRAME_BYTES + 1} bytes"),
        (frame(1, struct.pack(">i", 5) + b"\x01"), "is not a valid MetadataResponse"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "set security.protocol to SSL"),
    ],
    ids=["correlation", "negative", "short", "oversize", "undecodable", "tls-alert"],
)
def test_bytes_that_are_no_answer_are_corrupt_data_and_close_the_connection(
    pair: Pair, answer: bytes, words: str
) -> None:
    pair.peer.sendall(answer)
    with pytest.raises(CorruptData, match=words):
        pair.call()
    assert pair.connection.sock.fileno() == -1


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", frame(1, EMPTY_METADATA)[:-1]])
def test_a_connection_lost_in_the_middle_of_an_answer_names_the_broker(
    pair: Pair, sent: bytes
) -> None:
    pair.peer.sendall(sent)
    pair.peer.shutdown(socket.SHUT_WR)
    with pytest.raises(BrokerUnavailable, match="broker:9092"):
        pair.call()
    assert pair.connection.sock.fileno() == -1


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", frame(1, EMPTY_METADATA)[:-1]])
def test_a_silent_peer_costs_no_more_than_the_deadline(pair: Pair, sent: bytes) -> None:
    pair.peer.sendall(sent)
    with pytest.raises(DeadlineExceeded, match=r"MetadataRequest to broker:9092 .* 0.05 s"):
        pair.call(SHORT_S)
    assert pair.connection.sock.fileno() == -1


def test_a_peer_that_reads_nothing_costs_no_more_than_the_deadline(pair: Pair) -> None:
    pair.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    topics = [MetadataRequest.MetadataRequestTopic(name="x" * 30_000) for _ in range(100)]
    with pytest.raises(DeadlineExceeded):
        pair.connection.call(MetadataRequest(topics=topics), Deadline(SHORT_S))


def test_cancelling_wakes_a_call_that_waits() -> None:
    cancellation = Cancellation()
    pair = Pair(cancellation)
    errors: list[ConnectError] = []

    def call() -> None:
        try:
            pair.call()
        except ConnectError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    pair.peer.recv(100)
    cancellation.cancel()
    thread.join(AMPLE_S)
    pair.close()
    cancellation.close()
    assert [type(error) for error in errors] == [BrokerUnavailable]


@pytest.mark.parametrize("offered", [{}, {METADATA: (14, 20)}])
def test_no_common_version_is_an_error_that_leaves_the_connection_open(
    pair: Pair, offered: dict[int, tuple[int, int]]
) -> None:
    pair.connection.api_versions = offered
    with pytest.raises(BrokerError, match="broker:9092") as caught:
        pair.call()
    assert caught.value.code == 35
    assert pair.connection.sock.fileno() != -1


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_whatever_a_body_holds_it_is_decoded_or_corrupt(body: bytes) -> None:
    pair = Pair()
    pair.connection.api_versions = {METADATA: (0, 13)}
    pair.peer.sendall(frame(1, body))
    with contextlib.suppress(CorruptData):
        pair.call()
    pair.close()


def test_opening_asks_for_versions_and_sets_the_socket_up() -> None:
    settings_ = WireSettings(bootstrap=(), client_id="c", receive_buffer_bytes=-1)
    with HostilePeer(api_versions_frame(1, (METADATA, 0, 13))) as peer:
        connection = open_connection("127.0.0.1", peer.port, settings_, Deadline(AMPLE_S))
        sock = connection.sock
        assert connection.api_versions == {METADATA: (0, 13)}
        assert connection.session_lifetime_ms == 0
        assert not sock.getblocking()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 131_072
        connection.close()
    assert b"kafka-connect-mirror" in peer.received


def test_a_broker_too_old_for_flexible_api_versions_is_asked_with_version_0() -> None:
    refused = api_versions_frame(1, version=0, error_code=35)
    answered = api_versions_frame(2, (METADATA, 0, 4), version=0)
    with HostilePeer(refused + answered) as peer:
        connection = open_connection("127.0.0.1", peer.port, SETTINGS, Deadline(AMPLE_S))
        assert connection.api_versions == {METADATA: (0, 4)}
        connection.close()
    first = struct.unpack_from(">i", peer.received)[0] + 4
    assert struct.unpack_from(">hh", peer.received, first + 4) == (18, 0)


def test_a_peer_that_accepts_and_says_nothing_costs_no_more_than_the_deadline() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(DeadlineExceeded, match=r"ApiVersionsRequest to 127\.0\.0\.1"),
    ):
        open_connection("127.0.0.1", listener.getsockname()[1], SETTINGS, Deadline(SHORT_S))


def test_a_refused_connection_names_host_port_and_reason() -> None:
    port = unused_port()
    with pytest.raises(BrokerUnavailable, match=rf"127.0.0.1:{port} .*Connection refused"):
        open_connection("127.0.0.1", port, SETTINGS, Deadline(AMPLE_S))


def test_a_name_that_does_not_resolve_names_host_and_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(host: str, port: int, flags: int) -> list[tuple[int, object]]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(tcp, "_addresses", fail)
    with pytest.raises(BrokerUnavailable, match=r"nowhere:9092: Name or service not known"):
        open_connection("nowhere", 9092, SETTINGS, Deadline(AMPLE_S))


def test_a_resolver_that_hangs_costs_no_more_than_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = threading.Event()

    def hang(host: str, port: int, flags: int) -> list[tuple[int, object]]:
        if not flags:
            answer.wait(AMPLE_S)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure")

    monkeypatch.setattr(tcp, "_addresses", hang)
    with pytest.raises(BrokerUnavailable, match="resolving slow:9092 did not finish in time"):
        open_connection("slow", 9092, SETTINGS, Deadline(SHORT_S))
    answer.set()
    for thread in threading.enumerate():
        if thread.name == "resolve-slow":
            thread.join(AMPLE_S)


def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with HostilePeer(api_versions_frame(1)) as peer:
        addresses = [
            (socket.AF_INET, ("127.0.0.1", unused_port())),
            (socket.AF_INET, ("127.0.0.1", peer.port)),
        ]
        monkeypatch.setattr(tcp, "_addresses", lambda host, port, flags: addresses)
        connection = open_connection("two", 9092, SETTINGS, Deadline(AMPLE_S))
        assert connection.sock.getpeername() == addresses[1][1]
        connection.close()
