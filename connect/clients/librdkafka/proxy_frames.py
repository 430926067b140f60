"""Frames of the Kafka protocol as `SaslProxy` forwards them: split, answered, readdressed. Pure.

size int32 | request:  api key int16 | version int16 | correlation id int32 | ...
size int32 | response: correlation id int32 | ...
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import (
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from connect.clients.wire.message_classes import decode_body
from connect.errors import CorruptData
from connect.protocol.error_codes import ErrorCode
from connect.protocol.message_check import check_message

__all__ = [
    "API_VERSIONS",
    "AUTHENTICATE",
    "HANDSHAKE",
    "READDRESSED",
    "REQUEST_HEAD",
    "RESPONSE_HEAD",
    "FrameSplitter",
    "Piece",
    "RequestHead",
    "api_versions_answer",
    "authenticate_answer",
    "handshake_answer",
    "handshake_request",
    "handshake_response",
    "plain_credentials",
    "readdressed",
    "request_head",
    "response_head",
]

_REQUEST = struct.Struct(">ihhi")
_RESPONSE = struct.Struct(">ii")
REQUEST_HEAD = _REQUEST.size
RESPONSE_HEAD = _RESPONSE.size
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")

API_VERSIONS: int = ApiVersionsResponse.API_KEY
HANDSHAKE: int = SaslHandshakeResponse.API_KEY
AUTHENTICATE: int = SaslAuthenticateResponse.API_KEY

READDRESSED: Mapping[int, Any] = {
    response.API_KEY: response
    for response in (MetadataResponse, FindCoordinatorResponse, DescribeClusterResponse)
}
"""Api key -> class of the responses that name brokers' addresses."""

# The newest versions that this proxy can answer, and those whose responses name no new leader's
# address (KIP-951).
_NEWEST = {
    **{key: response.max_version for key, response in READDRESSED.items()},
    0: 9,  # Produce
    1: 15,  # Fetch
    API_VERSIONS: 3,
    HANDSHAKE: 1,
    AUTHENTICATE: 1,
}


class RequestHead(NamedTuple):
    """The first fields of a request; its size includes all after the size."""

    size: int
    api: int
    version: int
    correlation_id: int


class Piece(NamedTuple):
    """A part of a stream: a whole frame that was asked for, or bytes to pass on."""

    data: bytes
    whole: bool


class FrameSplitter:
    """Splits a stream. Frames that `wants` are collected, the others are passed on as they come."""

    def __init__(self, head_size: int, wants: Callable[[bytes], int]) -> None:
        """`wants(head)` is called once for each frame. It returns the size of a frame to collect,
        without its size field, or 0."""
        self._head_size = head_size
        self._wants = wants
        self._kept = bytearray()
        self._kept_size = 0
        self._passing = 0

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Yield the parts of the stream that `data` completes."""
        while data:
            if self._passing:
                passed, data = data[: self._passing], data[self._passing :]
                self._passing -= len(passed)
                yield Piece(passed, whole=False)
                continue
            missing = (self._kept_size or self._head_size) - len(self._kept)
            self._kept += data[:missing]
            data = data[missing:]
            if len(self._kept) < (self._kept_size or self._head_size):
                return
            if not self._kept_size:
                head = bytes(self._kept)
                size = self._wants(head)
                if size:
                    self._kept_size = max(size + _INT.size, self._head_size)
                    if len(self._kept) < self._kept_size:
                        continue
                else:
                    self._passing = _INT.unpack_from(head)[0] + _INT.size - self._head_size
                    if self._passing < 0:
                        raise CorruptData(f"a frame of {_INT.unpack_from(head)[0]} bytes")
            yield Piece(bytes(self._kept), whole=bool(self._kept_size))
            self._kept.clear()
            self._kept_size = 0


def request_head(head: bytes) -> RequestHead:
    """Read the first `REQUEST_HEAD` bytes of a request."""
    return RequestHead(*_REQUEST.unpack_from(head))


def response_head(head: bytes) -> tuple[int, int]:
    """Return (size, correlation id) from the first `RESPONSE_HEAD` bytes of a response."""
    size, correlation_id = _RESPONSE.unpack_from(head)
    return size, correlation_id


def api_versions_answer(head: RequestHead, offered: Mapping[int, tuple[int, int]]) -> bytes:
    """Return the answer to ApiVersions: the broker's versions, as far as the proxy understands."""
    known = head.version <= _NEWEST[API_VERSIONS]
    made = ApiVersionsResponse[head.version if known else 0](
        error_code=0 if known else ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=key, min_version=low, max_version=min(high, _NEWEST.get(key, high))
            )
            for key, (low, high) in sorted(offered.items())
            if low <= _NEWEST.get(key, high)
        ],
        throttle_time_ms=0,
        supported_features=[],
        finalized_features_epoch=-1,
        finalized_features=[],
        zk_migration_ready=False,
    )
    return _framed(made, head.correlation_id)


def handshake_request(mechanism: str, client_id: str, correlation_id: int) -> bytes:
    """Return a SaslHandshake request."""
    request = SaslHandshakeRequest(mechanism=mechanism, version=1)
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(request.encode(header=True, framed=True))


def handshake_answer(correlation_id: int) -> bytes:
    """Return a SaslHandshake response that offers PLAIN."""
    return _framed(SaslHandshakeResponse[1](error_code=0, mechanisms=["PLAIN"]), correlation_id)


def handshake_response(frame: bytes) -> Any:
    """Return a whole response to `handshake_request`, decoded. Raises `CorruptData`."""
    body = memoryview(frame)[RESPONSE_HEAD:]
    check_message(SaslHandshakeResponse._struct, 1, body, flexible=False)
    return decode_body(SaslHandshakeResponse, 1, body)


def authenticate_answer(head: RequestHead, refusal: str | None, lifetime_ms: int) -> bytes:
    """Return a SaslAuthenticate response: `refusal`, or a session of `lifetime_ms`, 0 for no
    limit.
    """
    made = SaslAuthenticateResponse[min(head.version, 1)](
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED if refusal else 0,
        error_message=refusal,
        auth_bytes=b"",
        session_lifetime_ms=lifetime_ms,
    )
    return _framed(made, head.correlation_id)


def plain_credentials(frame: bytes) -> bytes:
    """Return the user and password (RFC 4616) of a whole SaslAuthenticate request.

    Raises `CorruptData`.
    """
    at = REQUEST_HEAD
    try:
        (client_id_size,) = _SHORT.unpack_from(frame, at)
        at += _SHORT.size + max(0, client_id_size)
        (size,) = _INT.unpack_from(frame, at)
    except struct.error as error:
        raise CorruptData("an invalid SaslAuthenticate request") from error
    return frame[at + _INT.size :][: max(0, size)]


def readdressed(
    api: int, version: int, frame: bytes, local: Callable[[str, int], tuple[str, int]]
) -> bytes:
    """Return a whole response with each broker's (host, port) replaced by the result of `local`.

    Raises `CorruptData`.
    """
    response = READDRESSED[api]
    flexible = response.flexible_version_q(version)
    # The header of a flexible response has tagged fields, of which Kafka defines none.
    at = RESPONSE_HEAD + (1 if flexible else 0)
    check_message(response._struct, version, memoryview(frame)[at:], flexible=flexible)
    made = decode_body(response, version, frame[at:])
    for place in _places(made):
        if place.host:
            place.host, place.port = local(place.host, place.port)
    made.with_header(correlation_id=response_head(frame)[1])
    return bytes(made.encode(header=True, framed=True))


def _places(response: Any) -> list[Any]:
    """Return the parts with a host and a port."""
    if response.API_KEY == FindCoordinatorResponse.API_KEY:
        return [response, *(response.coordinators or [])]
    return list(response.brokers)


def _framed(response: Any, correlation_id: int) -> bytes:
    response.with_header(correlation_id=correlation_id)
    return bytes(response.encode(header=True, framed=True))
