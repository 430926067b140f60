"""Makes kafka-python's classes for responses before threads need them.

kafka-python 3.0.12 makes the class of a response's version when it is first asked for, and
registers it, weakly, as the one that decodes that response. When two threads are first at the same
time, the class that stays registered may be the one that nobody keeps: from then on every such
response ends in a `ReferenceError`, in all clients of the process. `prepare_responses` makes all of
them at once; `connect.clients.wire.connection` calls it while it is imported, before anybody has a
connection."""

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
    """Those that are defined, each once, without their versions."""
    waiting = [ApiMessage]
    while waiting:
        for found in waiting.pop().__subclasses__():
            if found._class_version is None:
                waiting.append(found)
                if found._json is not None and found.type == "response":
                    yield found


def prepare_responses() -> None:
    """Takes 20 ms. Not at the same time as anything that decodes."""
    for found in response_classes():
        for version in range(found.min_version, found.max_version + 1):
            found[version]
