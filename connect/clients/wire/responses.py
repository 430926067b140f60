"""Decode a broker's response with kafka-python, after checking its bytes.

kafka-python's decoder trusts the bytes, so `check_message` validates them first, and a malformed
response becomes an error.
"""

from __future__ import annotations

import io
import struct
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest

from connect.clients.wire.message_classes import decode_body
from connect.errors import CorruptData
from connect.protocol.message_check import check_message

__all__ = ["decode_response"]

_UNDECODABLE = (
    ValueError,
    struct.error,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
)


def decode_response(request: Any, frame: bytearray | memoryview, what: str) -> Any:
    """Decode the response to a request, from the correlation id on. Raises `CorruptData`."""
    response_class = request.header.get_response_class()
    version = request.API_VERSION
    stream = io.BytesIO(frame)
    try:
        response_class.parse_header(stream)
        body = memoryview(frame)[stream.tell() :]
        if request.API_KEY == ApiVersionsRequest.API_KEY and any(body[:2]):
            # A broker that does not support our ApiVersions version answers with version 0.
            version = 0
        flexible = response_class.flexible_version_q(version)
        check_message(response_class._struct, version, body, flexible=flexible)
        return decode_body(response_class, version, body)
    except CorruptData as error:
        raise _no_answer(response_class, frame, what, error) from error
    except _UNDECODABLE as error:
        raise _no_answer(response_class, frame, what, error) from error


def _no_answer(
    response_class: Any, frame: bytearray | memoryview, what: str, error: Exception
) -> CorruptData:
    return CorruptData(
        f"{what} got a response of {len(frame)} bytes that is not a valid"
        f" {response_class.__name__}: {error}"
    )
