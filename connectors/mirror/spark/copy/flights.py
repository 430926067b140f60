"""The shards in flight of one flow: each is a Spark job of its own, and the next goes out as one
ends.

Decides what goes out when, for how long, and at which rate. A shard is copied for its whole time
limit while its partitions get records, so those do not wait for the next shard. A partition that
gets its first records meanwhile does not wait for long shards: while there may be such a partition,
one slot always comes free soon. So a shard that takes the last slot is copied for `_SHORT_S` only,
unless another one in flight ends soon.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from connect.clock import Clock
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.copy.rate_shares import FlowShares, Pace
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.executor_ids import ExecutorTransactionalIds
from connectors.mirror.spark.copy.shard_plan import Shard
from connectors.mirror.spark.copy.shards import ShardResult
from connectors.spark.slots import Slots

__all__ = ["Flight", "FlightJobs", "Flights", "Landed"]

_LOG = logging.getLogger(__name__)

_LOOK_S = 0.5
"""How often partitions that wait for a time, and the executors, are checked."""

_SHORT_S = 0.3
_TROUBLED_S = 1.0
"""The time limit of troubled partitions in the last slot: they may have to connect first."""


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """A shard in flight. `seconds`: its time limit. `claim`: the lane that it writes with, if the
    flow writes exactly once. `pace`: its share of the flow's limits, if there are any. `probes`: as
    in its `Shard`."""

    number: int
    shard: Sequence[SourceRange]
    seconds: float
    claim: ClaimedProducer | None = None
    pace: Pace | None = None
    probes: frozenset[TopicPartition] = frozenset()

    @property
    def patient(self) -> bool:
        """Whether it has the time to move each partition that is well."""
        return self.seconds > _SHORT_S


class Landed(NamedTuple):
    """The end of a flight. `left`: its partitions without a result, for this `reason`; executors
    may copy them until the time `until`. Under exactly-once that time does not matter, because
    claiming the lane again stops the executor."""

    left: set[TopicPartition]
    reason: str
    until: float


class FlightJobs(Protocol):
    """Runs flights on Spark."""

    @property
    def slots(self) -> Slots | None:
        """Return the slots of the session; None while there is no session."""

    def run(self, flight: Flight) -> None:
        """Run the flight on a thread of its own. Does not block."""


class Flights:
    """Deals shards from the board to Spark. Belongs to the task's thread."""

    def __init__(
        self,
        name: str,
        board: PartitionBoard,
        jobs: FlightJobs,
        most_s: float,
        unheard_s: float,
        clock: Clock,
    ) -> None:
        """`most_s`: the maximum time for which a shard is copied. `unheard_s`: how much longer a
        task whose result is lost may copy."""
        self._name = name
        self._board = board
        self._jobs = jobs
        self._most_s = most_s
        self._unheard_s = unheard_s
        self._clock = clock
        self.shares = FlowShares()
        self._flights: dict[int, Flight] = {}
        self._dealt = 0
        self._look_at = 0.0

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def partitions(self) -> int:
        """Return the number of partitions in flight."""
        return sum(len(flight.shard) for flight in self._flights.values())

    def deal(self, ids: ExecutorTransactionalIds | None) -> None:
        """Send out shards, if there is something to copy and Spark has room for it.

        `ids`: the claimed transactional ids, if the flow writes exactly once.
        """
        now = self._clock.monotonic()
        if not (self._board.news or now >= self._look_at):
            return
        self._board.news = False
        slots = self._jobs.slots
        while slots is not None and (flight := self._next(slots, ids, now)) is not None:
            self._flights[flight.number] = flight
            self._jobs.run(flight)
        self._look_at = now + min(_LOOK_S, self.shares.next_s(now))

    def _next(
        self, slots: Slots, ids: ExecutorTransactionalIds | None, now: float
    ) -> Flight | None:
        free = slots.most - len(self._flights)
        if free <= 0:
            return None
        if ids is not None and not ids.ready:
            ids.grow()
            return None
        shard = self._board.take_shard(
            slots.most, now, lambda topic: self.shares.held_by(topic, now)
        )
        if shard is None:
            return None
        self._dealt += 1
        seconds = self._seconds(shard, slots)
        topics = [each.source[0] for each in shard.ranges]
        return Flight(
            self._dealt,
            shard.ranges,
            seconds,
            None if ids is None else ids.take(),
            self.shares.take(topics, min(free, 1 + self._board.waiting), seconds, now),
            shard.probes,
        )

    def _seconds(self, shard: Shard, slots: Slots) -> float:
        last = len(self._flights) + 1 >= slots.running
        soon = any(flight.seconds <= _SHORT_S for flight in self._flights.values())
        others = len(self._board) > self.partitions + len(shard.ranges)
        if not last or soon or not others:
            return self._most_s
        return min(self._most_s, _TROUBLED_S if shard.troubled else _SHORT_S)

    def landed(
        self,
        flight: Flight,
        outcome: ShardResult | ConnectError,
        ids: ExecutorTransactionalIds | None,
    ) -> Landed:
        """Handle the end of a flight."""
        now = self._clock.monotonic()
        del self._flights[flight.number]
        self._board.news = True
        if ids is not None and flight.claim is not None:
            ids.ended(flight.claim)
        progress = () if isinstance(outcome, ConnectError) else outcome.progress
        if flight.pace is not None:
            self.shares.give_back(flight.pace, progress, now)
        left = {each.source for each in flight.shard} - {each.range.source for each in progress}
        unheard = now + flight.seconds + self._unheard_s
        if isinstance(outcome, ConnectError):
            _LOG.warning("%s: a shard was lost: %s", self._name, outcome)
            return Landed(left, str(outcome), unheard)
        if outcome.error is not None:
            _LOG.warning("%s: a shard failed: %s", self._name, outcome.error)
        # After a repetition, the first run has not ended: Spark has yet to end its process.
        reason = outcome.error or "its shard could not be copied"
        return Landed(left, reason, unheard if outcome.again else now)
