"""Manages the lanes of a flow that writes exactly once on Spark: the transactional IDs that
executors write with.

An executor writes with a producer that the task claimed for one shard. If the shard ends well,
nothing writes with that producer any more. If it fails or its result is lost, an executor may still
write. So each used lane is claimed again before the next batch, which fences the executor and ends
its open transaction. Then the stored offsets show the positions of unsure partitions. At its start
a task claims all lanes, including those of earlier runs.

A task that was replaced may fence lanes of its successor and delay it, but it never uses a lane:
after each claim it checks whether it is still the latest run (`confirm`), and a successor claims
all lanes after it has become the latest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future

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
from connectors.mirror.copy.transactions.executor_ids import LANES, ClaimedProducer, lane_id

__all__ = ["ClaimedIds", "ExecutorTransactionalIds", "Positions"]

_LOG = logging.getLogger(__name__)

_CLAIM_S = 60.0
_JOIN_S = 2.0
_RETRY_FIRST_S, _RETRY_CAP_S = 0.5, 10.0

Positions = Mapping[TopicPartition, int | None]
"""The position after the stored offset; None: none is stored."""


class ClaimedIds:
    """Tracks which lanes are claimed and not used yet. Pure."""

    def __init__(self, task_id: str, count: int = LANES) -> None:
        self._ids = [lane_id(task_id, number) for number in range(count)]
        self._ready: dict[str, ProducerIdentity] = {}

    @property
    def missing(self) -> list[str]:
        """Return the lanes to be claimed."""
        return [name for name in self._ids if name not in self._ready]

    def claimed(self, producers: Mapping[str, ProducerIdentity]) -> None:
        self._ready.update(producers)

    def take(self, count: int) -> list[ClaimedProducer]:
        """Take `count` claimed lanes. Each claim is used once."""
        names = [name for name in self._ids if name in self._ready][:count]
        if len(names) < count:
            raise ValueError(f"{count} lanes are needed, but only {len(names)} are claimed")
        return [ClaimedProducer(name, self._ready.pop(name)) for name in names]


class ExecutorTransactionalIds:
    """Claims lanes. Belongs to the task's thread; results arrive there through `post`."""

    def __init__(
        self,
        transactions: TransferTransactions,
        target: WireSettings,
        stored: Callable[[Sequence[TopicPartition]], Positions],
        post: Callable[[Callable[[], None]], None],
        clock: Clock,
    ) -> None:
        """`stored`: reads committed offsets, on its own thread."""
        self._transactions = transactions
        self._target = target
        self._stored = stored
        self._post = post
        self._clock = clock
        self._book = ClaimedIds(transactions.transactional_id)
        self._threads = OneShotThreads("spark-lanes")
        self._cancellation = Cancellation()
        self._backoff = Backoff(_RETRY_FIRST_S, _RETRY_CAP_S)
        self._busy = False
        self._due = 0.0
        self.trouble: str | None = None
        """Why lanes are not claimed yet."""
        self.failure: ConnectError | None = None
        """The permanent error because of which no lane can be claimed."""

    @property
    def ready(self) -> bool:
        """Whether all lanes are claimed."""
        return not self._book.missing

    def take(self, count: int) -> list[ClaimedProducer]:
        return self._book.take(count)

    def claim(
        self, doubtful: Collection[TopicPartition], then: Callable[[Positions], None]
    ) -> None:
        """Claim the missing lanes, then read the stored offsets of the doubtful partitions. Call
        repeatedly, while no batch is in flight, until both are done."""
        if self._busy or self.failure is not None or self._clock.monotonic() < self._due:
            return
        self._busy = True
        names, keys = self._book.missing, list(doubtful)

        def work() -> tuple[Mapping[str, ProducerIdentity], Positions]:
            claimed = claim_producers(
                self._target,
                names,
                Deadline(_CLAIM_S, self._clock),
                timeout_ms=int(self._transactions.timeout_s * 1000),
                cancellation=self._cancellation,
            )
            return claimed, self._stored(keys) if keys else {}

        def worked(done: Future[tuple[Mapping[str, ProducerIdentity], Positions]]) -> None:
            self._post(lambda: self._confirm(done, then))

        self._threads.run("claim", work).add_done_callback(worked)

    def _confirm(
        self,
        done: Future[tuple[Mapping[str, ProducerIdentity], Positions]],
        then: Callable[[Positions], None],
    ) -> None:
        error = done.exception(timeout=0)
        if error is not None:
            self._failed(error)
            return
        claimed, positions = done.result(timeout=0)

        def confirmed(answer: Future[None]) -> None:
            self._post(lambda: self._take_over(answer, claimed, positions, then))

        self._transactions.confirm().add_done_callback(confirmed)

    def _take_over(
        self,
        answer: Future[None],
        claimed: Mapping[str, ProducerIdentity],
        positions: Positions,
        then: Callable[[Positions], None],
    ) -> None:
        error = answer.exception(timeout=0)
        if error is not None:
            self._failed(error)
            return
        self._busy = False
        self.trouble = None
        self._backoff.reset()
        self._book.claimed(claimed)
        then(positions)

    def _failed(self, error: BaseException) -> None:
        self._busy = False
        if not isinstance(error, ConnectError):
            raise error
        if not error.retriable:
            self.failure = error
            return
        self._due = self._clock.monotonic() + self._backoff.next()
        self.trouble = f"cannot claim transactional IDs yet: {error}"
        _LOG.warning("%s; retrying", self.trouble)

    def close(self) -> None:
        self._threads.stop()
        self._cancellation.cancel()
        left = self._threads.join(Deadline(_JOIN_S, self._clock))
        if left:
            _LOG.warning("Threads that did not end in time: %s", ", ".join(left))
        else:
            self._cancellation.close()
