"""Counts the batches of each target partition that are under way: brokers remember five, and of a
producer that they do not know they take any batch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.simulation.copier.pair_oracle import Broken
from tests.simulation.kafka.network import Connection, RequestHandler
from tests.simulation.kafka.wire_format import (
    Key,
    ProducedPart,
    parse_header,
    parse_produce_request,
)

__all__ = ["Flights"]

PRODUCE = 0
MOST = 5
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43

Stream = tuple[Key, int, int]
"""(partition, producer id, epoch)"""


class Flights:
    """Of one target cluster. A batch is under way from when its request is sent until the client
    can read that it was taken."""

    def __init__(self) -> None:
        self._under_way: dict[Stream, list[int]] = {}
        self._requests: dict[tuple[Connection, int], list[tuple[Stream, int]]] = {}
        self._takes: dict[Stream, RequestHandler] = {}
        """The broker that took a batch last."""
        self.broken: Broken | None = None

    def sent(self, connection: Connection, frame: memoryview) -> None:
        """A client has sent this request."""
        api, _, correlation, at = parse_header(frame)
        if api != PRODUCE:
            return
        request: list[tuple[Stream, int]] = []
        for key, batch in parse_produce_request(frame, at).batches.items():
            producer, epoch, first = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
            stream = (key, producer, epoch)
            # Sent again from here on: what was sent behind it before is sent anew, too.
            mine = [each for each in self._under_way.get(stream, ()) if each < first]
            mine.append(first)
            self._under_way[stream] = mine
            request.append((stream, first))
            if len(mine) > MOST:
                self._break(stream, f"{len(mine)} batches are under way", mine)
            elif len(mine) > 1 and self._takes.get(stream) is not connection.broker:
                # Where the first of them fails, the next one is taken in its place.
                self._break(
                    stream,
                    f"{len(mine)} batches are under way to a broker that has taken none yet",
                    mine,
                )
        self._requests[connection, correlation] = request

    def answered(
        self, connection: Connection, correlation: int, parts: Sequence[ProducedPart]
    ) -> None:
        """The client can read this answer."""
        taken = {part.key for part in parts if part.error in (0, 46)}
        for stream, first in self._requests.pop((connection, correlation), ()):
            if stream[0] in taken:
                self._takes[stream] = connection.broker
                self._under_way[stream] = [
                    each for each in self._under_way.get(stream, ()) if each > first
                ]

    def _break(self, stream: Stream, what: str, sequences: Sequence[int]) -> None:
        topic, number = stream[0]
        self.broken = self.broken or Broken(
            f"{topic}-{number}: {what}, from the sequence numbers {sequences}"
        )
