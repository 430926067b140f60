"""Create kafka-python's response classes before threads need them.

kafka-python 3.0.12 creates the class of a response version on first use, and registers it by a weak
reference for decoding. If two threads do this at the same time, the registered class may be the one
that is garbage-collected; then every such response raises `ReferenceError` in all clients of the
process. `prepare_responses` creates all classes at once; `connect.clients.wire.connection` calls it
on import, before any connection exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl  # noqa: F401 - like the others, for what it defines
from kafka.protocol.api_message import ApiMessage

__all__ = ["prepare_responses", "response_classes"]


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
