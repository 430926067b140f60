"""Use kafka-python's response classes from several threads.

kafka-python 3.0.12 creates two things on first use, and neither is thread-safe:

- the class of a response version, which it registers by a weak reference. If two threads create it
  at the same time, the registered class may be the one that is garbage-collected; then every such
  response raises `ReferenceError`. `prepare_responses` creates all classes at once;
  `connect.clients.wire.connection` calls it on import, before any connection exists.
- the decoder of a response version. While it is compiled, a field of the schema holds the class
  to create. If two threads compile it at the same time, the decoder may keep the weak reference
  instead of the class; then every such response raises `TypeError`. `decode_body` lets one thread
  at a time decode the first response of a version.

Either error would last until the process ends, for all its clients.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl  # noqa: F401 - like the others, for what it defines
from kafka.protocol.api_message import ApiMessage

__all__ = ["decode_body", "prepare_responses", "response_classes"]

_first_of_a_version = threading.Lock()
_decoded: set[tuple[int, int]] = set()
"""API keys and versions whose decoders exist. Only added to, with the lock held."""


def response_classes() -> Iterator[Any]:
    """Yield the defined response classes, each once, without their versions."""
    waiting = [ApiMessage]
    while waiting:
        for found in waiting.pop().__subclasses__():
            if found._class_version is None:
                waiting.append(found)
                if found._json is not None and found.type == "response":
                    yield found


def prepare_responses() -> None:
    """Create the classes of all versions. Takes 20 ms; nothing may decode responses meanwhile."""
    for found in response_classes():
        for version in range(found.min_version, found.max_version + 1):
            found[version]


def decode_body(response: Any, version: int, body: memoryview | bytes) -> Any:
    """Decode a response without its header. The bytes must have been checked. Thread-safe.

    `response`: the response class, with or without a version.
    """
    key = (response.API_KEY, version)
    if key in _decoded:
        return response.decode(body, version=version)
    with _first_of_a_version:
        decoded = response.decode(body, version=version)
        _decoded.add(key)
        return decoded
