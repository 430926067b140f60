"""The micro-batch that a flow's Spark query copies: asked for, planned, in progress, ended."""

from __future__ import annotations

import logging
from concurrent.futures import Future

from connect.clock import Clock
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.rates import FlowLimits
from connectors.mirror.copy.transactions.executor_ids import LANES
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.executor_ids import ExecutorTransactionalIds
from connectors.mirror.spark.copy.rate_shares import FlowPacing
from connectors.mirror.spark.copy.shards import ShardResult
from connectors.mirror.spark.copy.streaming_query import Batch

__all__ = ["ShardBatch"]

_LOG = logging.getLogger(__name__)

_LOOK_S = 0.5
"""How often it checks whether partitions may continue that wait until some time."""


class ShardBatch:
    """Plans one micro-batch after another from the board. Belongs to the task's thread.

    `unheard_s`: a Spark task whose result is lost copies no longer than this.
    """

    def __init__(
        self, name: str, board: PartitionBoard, pacing: FlowPacing, unheard_s: float, clock: Clock
    ) -> None:
        self._name = name
        self._board = board
        self._pacing = pacing
        self._unheard_s = unheard_s
        self._clock = clock
        self._wanted: tuple[Future[Batch], int] | None = None
        self._look_at = 0.0
        self._error = ""
        self._ran_again = False
        self.left: set[TopicPartition] = set()
        """The partitions of the batch that have not reported a result."""
        self.open = False
        """Whether a batch was planned and has not ended."""

    def limit(self, limits: FlowLimits) -> None:
        """Apply other rate limits from the next batch on."""
        self._pacing.limit(limits)

    def ask(self, wanted: Future[Batch], slots: int) -> None:
        """The query asks for a batch of at most `slots` shards."""
        self._wanted = wanted, slots

    @property
    def asked(self) -> bool:
        """Whether the query waits for a batch."""
        if self._wanted is not None and self._wanted[0].cancelled():
            self._wanted = None
        return self._wanted is not None

    def serve(self, ids: ExecutorTransactionalIds | None) -> None:
        """Plan the batch that the query asked for, if there is something to copy.

        `ids`: the claimed transactional ids, if the flow writes exactly once.
        """
        now = self._clock.monotonic()
        if self._wanted is None or not (self._board.news or now >= self._look_at):
            return
        wanted, slots = self._wanted
        if ids is not None:
            slots = min(slots, LANES - 1)
        pacing = self._pacing
        shards = self._board.plan(slots, now, lambda topic: pacing.held_by(topic, now))
        self._look_at = now + min(_LOOK_S, pacing.next_s(now))
        if not shards:
            return
        self._wanted = None
        keys = {each.source for shard in shards for each in shard}
        if not wanted.set_running_or_notify_cancel():
            self._board.release(keys)
            return
        self.left = keys
        self.open = True
        self._error = "its shard could not be copied"
        self._ran_again = False
        claims = None if ids is None else ids.take(len(shards))
        wanted.set_result(Batch(shards, claims, pacing.give_out(shards, self._board.size, now)))

    def note(self, result: ShardResult) -> None:
        """Handle what a shard's result says about the batch."""
        self._ran_again |= result.again
        if result.error is not None:
            self._error = result.error
            _LOG.warning("%s: a shard failed: %s", self._name, result.error)
        self.left.difference_update(each.range.source for each in result.progress)
        self._pacing.came(result.progress)

    def end(self, error: ConnectError | None) -> tuple[set[TopicPartition], str, float]:
        """End the batch. Return the partitions without a result, the reason, and the time from
        which they may be copied again because no executor copies them any more.

        Under exactly-once that time does not matter: claiming the transactional ids again stops
        the executors.
        """
        now = self._clock.monotonic()
        left, self.left, self.open = self.left, set(), False
        if error is not None:
            _LOG.warning("%s: a batch failed: %s", self._name, error)
            return left, str(error), now + self._unheard_s
        # The first run did not end before the second: Spark has yet to end its process.
        return left, self._error, now + self._unheard_s if self._ran_again else now
