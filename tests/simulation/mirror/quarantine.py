"""Where simulated tasks put records that the target refuses, and which records it refuses."""

from __future__ import annotations

from concurrent.futures import Future

from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connect.protocol.record_codec import iter_records
from connectors.mirror.copy.quarantine import QuarantinedRecords
from tests.simulation.mirror.timeline import Timeline

__all__ = ["QuarantineRecords", "SimulatedQuarantine"]

_LONGEST_WRITE_S = 0.2
_FAILS = 0.1


class QuarantineRecords:
    """The quarantine's topic, and the target's rule. `bad_every` 0: everything is allowed, else
    every so many numbers break the rule."""

    def __init__(self) -> None:
        self.bad_every = 0
        self.fails = _FAILS
        self.written: set[tuple[TopicPartition, int]] = set()
        """(source partition, source offset)"""

    def refuses(self, data: bytes) -> bool:
        """Whether a record of this batch breaks the rule."""
        every = self.bad_every
        return bool(every) and any(
            int(each.value or b"0") % every == 0 for each in iter_records(data)
        )


class SimulatedQuarantine:
    """One worker's client of it. What is under way when the worker dies is written or not."""

    def __init__(self, timeline: Timeline, records: QuarantineRecords) -> None:
        self._timeline = timeline
        self._records = records
        self._closed = False

    def put(self, aside: QuarantinedRecords) -> Future[None]:
        done: Future[None] = Future()
        chance = self._timeline.random
        fails = chance.random() < self._records.fails

        def answer() -> None:
            if not fails:
                for offset in range(aside.first, aside.last + 1):
                    self._records.written.add((aside.source, offset))
            if self._closed:
                done.cancel()
            elif fails:
                done.set_exception(ConnectError("simulated: the quarantine is not reachable"))
            else:
                done.set_result(None)

        self._timeline.after(_LONGEST_WRITE_S * chance.random(), answer)
        return done

    def close(self) -> None:
        self._closed = True
