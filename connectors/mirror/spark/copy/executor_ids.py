"""Manages the lanes of a flow that writes exactly once on Spark: the transactional IDs that
executors write with.

A lane is *missing* (to be claimed), *ready* (claimed and not used yet) or *in flight* (an executor
may write with it). This order makes each record count once:

1. At its start a task claims all lanes of earlier runs before its first shard. That fences every
   executor of theirs and ends their transactions. Lanes are claimed in blocks. A task that has used
   all lanes of its blocks claims another one; the next run asks how many there are.
2. A shard takes one ready lane. Its claim is used once, and no other shard has it. So a shard that
   is lost can be fenced alone, while others go on.
3. When a shard has ended, with or without an error, its lane is missing. A lane in flight is
   never claimed: that would fence a shard that copies.
4. After a shard that did not end well, an executor may still write its partitions. They are
   *unsure* and in no shard until (a) its lane was claimed again, which ends its transaction, and
   then (b) their stored offsets were read. A read that began before the claim could miss a commit.
   So partitions that become unsure during a claim wait for the next one.
5. The read waits for every transaction that is open when it begins, also of other shards, because
   their offsets are in the same topic (`TopicLog.read_to_end`). They end with their shards. One of
   a lost shard ends when its lane is claimed, so claims go on during a read.
6. A task that was replaced may fence lanes of its successor and delay it, but it never uses a lane:
   after each claim it checks whether it is still the latest run (`confirm`), and only then are the
   lanes ready. A successor claims all lanes after it has become the latest. So either the check
   fails, or the successor fences what was claimed before the check.

A shard that ended well needs no claim for its partitions: it returned only after its last
transaction had ended, and nothing writes with that producer any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from connect.clients.config.settings import WireSettings
from connect.clients.transactions.coordinator import ProducerIdentity
from connect.clients.transactions.fence_producers import claim_producers
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import Clock, Deadline
from connect.errors import ConnectError
from connect.loop import Backoff
from connect.plugin import TransferTransactions
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.transactions.executor_ids import (
    LANES,
    MOST_BLOCKS,
    ClaimedProducer,
    claimed_blocks,
    lane_block,
)

__all__ = [
    "BrokerLaneClaims",
    "ExecutorTransactionalIds",
    "LaneClaims",
    "Positions",
]

_LOG = logging.getLogger(__name__)

_CLAIM_S = 60.0
_JOIN_S = 2.0
_RETRY_FIRST_S, _RETRY_CAP_S = 0.5, 10.0
_AT_ONCE = LANES // 8
"""Number of missing lanes that are claimed at once, because each claim opens connections."""

Positions = Mapping[TopicPartition, int | None]
"""The position after the stored offset; None: none is stored."""


class LaneClaims(Protocol):
    """The requests that lanes need. None blocks; futures complete on any thread."""

    def blocks(self, task_id: str) -> Future[int | None]:
        """Find out how many blocks of lanes earlier runs claimed; None: brokers cannot tell."""

    def claim(self, names: Sequence[str]) -> Future[Mapping[str, ProducerIdentity]]:
        """Claim these lanes: fence their producers and end their transactions."""

    def confirm(self) -> Future[None]:
        """Check whether this is the latest run of the task; fails if not."""

    def read(self, keys: Sequence[TopicPartition]) -> Future[Positions]:
        """Read the stored offsets, once the transactions that are open now have ended."""

    def close(self) -> None:
        """End all requests."""


class ExecutorTransactionalIds:
    """Claims lanes and settles unsure partitions, in the background. Belongs to the task's thread;
    results arrive there through `post`."""

    def __init__(
        self,
        task_id: str,
        claims: LaneClaims,
        settle: Callable[[Positions], None],
        post: Callable[[Callable[[], None]], None],
        clock: Clock,
    ) -> None:
        """`task_id`: the task's own transactional ID. `settle`: receives the positions of unsure
        partitions; no executor writes them any more."""
        self._task_id = task_id
        self._claims = claims
        self._settle = settle
        self._post = post
        self._clock = clock
        self._blocks = 0
        """Of lanes that this run knows; 0 until the brokers have said how many there are."""
        self._may_grow = False
        self._missing: dict[str, None] = {}
        self._ready: dict[str, ProducerIdentity] = {}
        self._backoff = Backoff(_RETRY_FIRST_S, _RETRY_CAP_S)
        self._begun = self._asking = self._claiming = self._reading = False
        self._fenced: set[TopicPartition] = set()
        """Unsure partitions that no executor writes any more, until their offsets are read."""
        self._due = 0.0
        self.trouble: str | None = None
        """Why lanes are not claimed, or offsets not read, yet."""
        self.failure: ConnectError | None = None
        """The permanent error because of which no lane can be claimed."""

    @property
    def ready(self) -> int:
        """Return how many shards may go out now; none before all lanes were claimed once."""
        return len(self._ready) if self._begun else 0

    def grow(self) -> None:
        """Note that a shard could go out if a lane were ready. If all are in flight, there are to
        be more."""
        idle = self._ready or self._missing or self._claiming
        if self._may_grow and not idle and self._blocks < MOST_BLOCKS:
            self._know(self._blocks + 1)

    def _know(self, blocks: int) -> None:
        for block in range(self._blocks, blocks):
            self._missing.update(dict.fromkeys(lane_block(self._task_id, block)))
        self._blocks = blocks

    def take(self) -> ClaimedProducer:
        """Take a ready lane. It is in flight until `ended`."""
        name = next(iter(self._ready))
        return ClaimedProducer(name, self._ready.pop(name))

    def ended(self, claim: ClaimedProducer) -> None:
        """Note that the shard with this claim has ended, with or without an error."""
        self._missing[claim.transactional_id] = None

    def turn(self, unsure: Collection[TopicPartition]) -> None:
        """Claim the lanes and read the offsets that are needed. Call often, with all unsure
        partitions."""
        if self.failure is not None or self._clock.monotonic() < self._due:
            return
        if not self._blocks:
            self._ask_blocks()
        elif not self._claiming:
            self._claim([key for key in unsure if key not in self._fenced])
        if self._fenced and not self._reading:
            self._read(list(self._fenced))

    def _ask_blocks(self) -> None:
        if self._asking:
            return
        self._asking = True
        self._claims.blocks(self._task_id).add_done_callback(
            lambda done: self._post(lambda: self._told_blocks(done))
        )

    def _told_blocks(self, done: Future[int | None]) -> None:
        self._asking = False
        error = done.exception(timeout=0)
        if error is not None:
            self._failed(error)
            return
        blocks = done.result(timeout=0)
        # A run that could not find out how many blocks there are must never have made a second one.
        self._may_grow = blocks is not None
        self._know(max(1, blocks or 0))
        self._well()

    def _claim(self, doubtful: Sequence[TopicPartition]) -> None:
        names = list(self._missing)
        enough = self._begun and self._ready and len(names) < _AT_ONCE
        if not doubtful and (enough or not names):
            return
        self._claiming = True
        self._claims.claim(names).add_done_callback(
            lambda done: self._post(lambda: self._confirm(done, doubtful))
        )

    def _confirm(
        self, done: Future[Mapping[str, ProducerIdentity]], doubtful: Sequence[TopicPartition]
    ) -> None:
        error = done.exception(timeout=0)
        if error is not None:
            self._claiming = False
            self._failed(error)
            return
        claimed = done.result(timeout=0)
        self._claims.confirm().add_done_callback(
            lambda answer: self._post(lambda: self._take_over(answer, claimed, doubtful))
        )

    def _take_over(
        self,
        answer: Future[None],
        claimed: Mapping[str, ProducerIdentity],
        doubtful: Sequence[TopicPartition],
    ) -> None:
        self._claiming = False
        error = answer.exception(timeout=0)
        if error is not None:
            self._failed(error)
            return
        self._well()
        for name, producer in claimed.items():
            del self._missing[name]
            self._ready[name] = producer
        self._begun = True
        self._fenced.update(doubtful)

    def _read(self, keys: Sequence[TopicPartition]) -> None:
        self._reading = True
        self._claims.read(keys).add_done_callback(
            lambda done: self._post(lambda: self._was_read(keys, done))
        )

    def _was_read(self, keys: Sequence[TopicPartition], done: Future[Positions]) -> None:
        self._reading = False
        error = done.exception(timeout=0)
        if error is not None:
            self._failed(error)
            return
        self._well()
        self._fenced.difference_update(keys)
        self._settle(done.result(timeout=0))

    def _well(self) -> None:
        self.trouble = None
        self._backoff.reset()

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, ConnectError):
            raise error
        if not error.retriable:
            self.failure = error
            return
        self._due = self._clock.monotonic() + self._backoff.next()
        self.trouble = f"cannot claim transactional IDs yet: {error}"
        _LOG.warning("%s; retrying", self.trouble)

    def close(self) -> None:
        self._claims.close()


class BrokerLaneClaims:
    """`LaneClaims` on threads of its own."""

    def __init__(
        self,
        transactions: TransferTransactions,
        target: WireSettings,
        stored: Callable[[Sequence[TopicPartition]], Positions],
        clock: Clock,
    ) -> None:
        """`stored`: reads committed offsets; blocks."""
        self._transactions = transactions
        self._target = target
        self._stored = stored
        self._clock = clock
        self._threads = OneShotThreads("spark-lanes")
        self._cancellation = Cancellation()

    def blocks(self, task_id: str) -> Future[int | None]:
        def work() -> int | None:
            deadline = Deadline(_CLAIM_S, self._clock)
            return claimed_blocks(self._target, task_id, deadline, self._cancellation)

        return self._threads.run("blocks", work)

    def claim(self, names: Sequence[str]) -> Future[Mapping[str, ProducerIdentity]]:
        def work() -> Mapping[str, ProducerIdentity]:
            return claim_producers(
                self._target,
                names,
                Deadline(_CLAIM_S, self._clock),
                timeout_ms=int(self._transactions.timeout_s * 1000),
                cancellation=self._cancellation,
            )

        return self._threads.run("claim", work)

    def confirm(self) -> Future[None]:
        return self._transactions.confirm()

    def read(self, keys: Sequence[TopicPartition]) -> Future[Positions]:
        return self._threads.run("read", lambda: self._stored(keys))

    def close(self) -> None:
        self._threads.stop()
        self._cancellation.cancel()
        left = self._threads.join(Deadline(_JOIN_S, self._clock))
        if left:
            _LOG.warning(
                "Threads that did not end in time; nothing has to be done, they end with "
                "the process: %s",
                ", ".join(left),
            )
        else:
            self._cancellation.close()
