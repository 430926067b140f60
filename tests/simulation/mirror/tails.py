"""Compares the ends of both simulated logs after a crash, as `tail_lookup` does on its threads."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from connect.clients.cluster.partition_reader import FetchedBatches
from connect.errors import BrokerUnavailable
from connect.protocol.batches import read_headers
from connectors.mirror.compare.batch_runs import wire_runs
from connectors.mirror.compare.target_tail import Tail, compared
from connectors.mirror.copy.partition.leader_epochs import LeaderEpochCache
from connectors.mirror.copy.positions.tail_checks import FoundTail, TailQuestion
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.log import Log
from tests.simulation.mirror.timeline import Timeline

__all__ = ["SimulatedTails"]

_LOOK_S = (0.005, 0.3)
_FAILS = 0.1


class SimulatedTails:
    """A `TailLookup` whose comparing is the real one; reading takes a seeded time, or fails."""

    def __init__(
        self, timeline: Timeline, source: Cluster, target: Cluster, *, read_committed: bool
    ) -> None:
        self._timeline = timeline
        self._source = source
        self._target = target
        self._read_committed = read_committed
        self._closed = False

    def look(self, question: TailQuestion) -> Future[FoundTail]:
        found: Future[FoundTail] = Future()
        chance = self._timeline.random
        fails = chance.random() < _FAILS

        def answer() -> None:
            if self._closed:
                found.cancel()
            elif fails or not self._are_there(question):
                found.set_exception(BrokerUnavailable("simulated: a log could not be read"))
            else:
                found.set_result(self._compare(question))

        self._timeline.after(chance.uniform(*_LOOK_S), answer)
        return found

    def _are_there(self, question: TailQuestion) -> bool:
        """Whether both topics exist."""
        asked = ((self._source, question.source), (self._target, question.target))
        return all(cluster.find(key) is not None for cluster, key in asked)

    def close(self) -> None:
        self._closed = True

    def _compare(self, question: TailQuestion) -> Tail:
        ours = self._source.find(question.source)
        theirs = self._target.find(question.target)
        assert ours is not None
        assert theirs is not None
        first = question.source_start
        end = ours.log.stable if self._read_committed else ours.log.high
        stable = theirs.log.stable
        asked_to = stable if question.target_end is None else question.target_end
        span = question.target_start, min(asked_to, stable)
        if span[1] <= span[0]:
            return Tail((), first, None)
        (mine,) = _read(ours.log, first, end)
        epochs = LeaderEpochCache()
        if mine.headers:
            epochs.saw(mine.records, mine.headers)
        found = compared(
            question.source,
            question.target,
            first,
            wire_runs([mine], first, end, committed=self._read_committed),
            wire_runs(_read(theirs.log, *span), *span, committed=True),
            timestamps=True,
        )
        epochs.cut(found.position)
        return replace(found, epochs=epochs.starts)


def _read(log: Log, first: int, end: int) -> list[FetchedBatches]:
    """One fetch answer with all of it."""
    batches = [batch for batch in log.from_offset(max(first, log.start)) if batch.base < end]
    records = memoryview(b"".join(batch.data for batch in batches))
    aborted = tuple(log.aborted_between(first, end))
    return [FetchedBatches(records, read_headers(records), aborted, log.start)]
