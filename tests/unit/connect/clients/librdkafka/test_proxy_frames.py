"""Frames that the SASL proxy forwards, answers and readdresses."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import (
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse

from connect.clients.librdkafka.proxy_frames import (
    READDRESSED,
    RESPONSE_HEAD,
    FrameSplitter,
    RequestHead,
    api_versions_answer,
    authenticate_answer,
    plain_credentials,
    readdressed,
    response_head,
)
from connect.errors import CorruptData
from connect.protocol.error_codes import ErrorCode

HOST, PORT = "broker-7.example", 19092
LOCAL = ("127.0.0.1", 40123)


def response(made: Any) -> bytes:
    made.with_header(correlation_id=77)
    return bytes(made.encode(header=True, framed=True))


def metadata(version: int) -> bytes:
    broker = MetadataResponse.MetadataResponseBroker
    return response(
        MetadataResponse[version](
            brokers=[
                broker(node_id=1, host=HOST, port=PORT, rack="a"),
                broker(node_id=2, host="b", port=1, rack=None),
            ],
            cluster_id="c",
            controller_id=1,
            topics=[],
        )
    )


def coordinator(version: int) -> bytes:
    found = FindCoordinatorResponse.Coordinator
    return response(
        FindCoordinatorResponse[version](
            error_code=0,
            node_id=1,
            host=HOST,
            port=PORT,
            coordinators=[found(key="g", node_id=1, host=HOST, port=PORT, error_code=0)],
        )
    )


def cluster(version: int) -> bytes:
    broker = DescribeClusterResponse.DescribeClusterBroker
    return response(
        DescribeClusterResponse[version](
            error_code=0,
            cluster_id="c",
            controller_id=1,
            brokers=[broker(broker_id=1, host=HOST, port=PORT, rack=None)],
        )
    )


FRAMES = [
    *[(MetadataResponse, version, metadata) for version in range(14)],
    *[(FindCoordinatorResponse, version, coordinator) for version in range(7)],
    *[(DescribeClusterResponse, version, cluster) for version in range(3)],
]


@pytest.mark.parametrize(("kind", "version", "made"), FRAMES)
def test_addresses_become_local_and_all_else_stays(kind: Any, version: int, made: Any) -> None:
    frame = made(version)
    assert readdressed(kind.API_KEY, version, frame, lambda host, port: (host, port)) == frame
    assert HOST.encode() in frame

    changed = readdressed(kind.API_KEY, version, frame, lambda host, port: LOCAL)
    assert HOST.encode() not in changed
    assert response_head(changed) == (len(changed) - 4, 77)
    back = readdressed(
        kind.API_KEY, version, changed, lambda host, port: (HOST, PORT) if host else (host, port)
    )
    if made is not metadata:
        assert back == frame


@pytest.mark.parametrize(("kind", "version", "made"), FRAMES)
def test_a_cut_response_is_corrupt(kind: Any, version: int, made: Any) -> None:
    with pytest.raises(CorruptData):
        readdressed(kind.API_KEY, version, made(version)[:-1], lambda host, port: LOCAL)


def test_versions_are_limited_to_what_the_proxy_understands() -> None:
    offered = {0: (0, 13), 1: (4, 18), 3: (0, 99), 17: (0, 1), 18: (0, 4), 36: (0, 2), 50: (0, 0)}
    frame = api_versions_answer(RequestHead(0, 18, 3, 5), offered)
    made = ApiVersionsResponse.decode(frame[RESPONSE_HEAD:], version=3)
    versions = {each.api_key: (each.min_version, each.max_version) for each in made.api_keys}
    newest = READDRESSED[3].max_version
    assert versions == {
        0: (0, 9),
        1: (4, 15),
        3: (0, newest),
        17: (0, 1),
        18: (0, 3),
        36: (0, 1),
        50: (0, 0),
    }


def test_a_newer_api_versions_request_is_answered_as_brokers_do() -> None:
    frame = api_versions_answer(RequestHead(0, 18, 9, 5), {18: (0, 4)})
    made = ApiVersionsResponse.decode(frame[RESPONSE_HEAD:], version=0)
    assert made.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [each.api_key for each in made.api_keys] == [18]


@pytest.mark.parametrize("version", [0, 1])
def test_an_authentication_is_answered(version: int) -> None:
    head = RequestHead(0, 36, version, 5)
    accepted = authenticate_answer(head, None, 4_000)[RESPONSE_HEAD:]
    made = SaslAuthenticateResponse.decode(accepted, version=version)
    assert made.error_code == 0
    if version:
        assert made.session_lifetime_ms == 4_000

    refused = authenticate_answer(head, "no such key", 0)[RESPONSE_HEAD:]
    made = SaslAuthenticateResponse.decode(refused, version=version)
    assert made.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert made.error_message == "no such key"


@pytest.mark.parametrize("client_id", ["", "a client", None])
def test_credentials_are_read(client_id: str | None) -> None:
    request = SaslAuthenticateRequest[1](auth_bytes=b"\0user\0password")
    request.with_header(correlation_id=3, client_id=client_id)
    frame = bytes(request.encode(header=True, framed=True))
    assert plain_credentials(frame) == b"\0user\0password"


def test_credentials_of_a_cut_request() -> None:
    with pytest.raises(CorruptData):
        plain_credentials(struct.pack(">ihhih", 10, 36, 1, 3, 200))


@given(
    st.lists(st.tuples(st.integers(4, 60), st.booleans()), max_size=12),
    st.lists(st.integers(1, 70), min_size=1),
)
def test_a_stream_is_split_wherever_it_is_cut(
    frames: list[tuple[int, bool]], cuts: list[int]
) -> None:
    """However the bytes arrive, collected frames are whole and the others' bytes are all there."""
    sent = [
        struct.pack(">ii", size, int(collect)) + bytes([number] * (size - 4))
        for number, (size, collect) in enumerate(frames)
    ]
    stream = b"".join(sent)
    splitter = FrameSplitter(8, lambda head: struct.unpack(">ii", head)[0] if head[7] else 0)
    pieces = []
    at = turn = 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        pieces += list(splitter.feed(stream[at : at + size]))
        at, turn = at + size, turn + 1
    assert b"".join(piece.data for piece in pieces) == stream
    whole = [piece.data for piece in pieces if piece.whole]
    assert whole == [frame for frame, (_, collect) in zip(sent, frames, strict=True) if collect]


def test_a_frame_shorter_than_its_head_is_corrupt() -> None:
    with pytest.raises(CorruptData):
        list(FrameSplitter(8, lambda head: 0).feed(struct.pack(">ii", 2, 0)))
