"""A simulated transaction coordinator, and the `TransferTransactions` of a task that speaks to it.

The coordinator keeps one transaction for each transactional id. It writes markers one by one, some
time after it has decided; until the last is there, the id can begin no other transaction. A
transaction that is older than its timeout is aborted, and its producer fenced.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect.clients.transactions.coordinator import AbortableTransactionError
from connect.clients.transactions.producer import ProducerFenced
from connect.errors import ConnectError
from connect.plugin import OFFSET_NOTE, SourcePartition, StoredOffset
from connect.protocol.records import iter_records
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.log import ABORT, COMMIT, Batch
from tests.simulation.kafka.partition import NO_LEADER

__all__ = ["Coordinator", "CoordinatorFaults", "SimulatedTransactions", "committed_offsets"]

T = TypeVar("T")
Key = tuple[str, int]

UNKNOWN_TOPIC_OR_PARTITION = 3
OPERATION_NOT_ATTEMPTED = 55
_MARKER_RETRY_S = 0.05
_LATE_S = 1.0
"""An answer that is late takes so much longer."""


class _Stage(enum.Enum):
    EMPTY = "empty"
    OPEN = "open"
    ENDING = "ending"


@dataclass(slots=True)
class CoordinatorFaults:
    """Probabilities, and times in seconds."""

    slow: float = 0.0
    """A request takes much longer: the coordinator is away, and the client tries again."""
    slow_s: float = 2.0
    spoilt: float = 0.0
    """Adding partitions, or a commit, is refused: abort the transaction."""
    unknown_partition: float = 0.0
    """The coordinator does not know a partition yet."""


@dataclass(slots=True)
class _Transaction:
    producer: int
    epoch: int
    timeout_s: float
    stage: _Stage = _Stage.EMPTY
    members: set[Key] = field(default_factory=set)
    unmarked: set[Key] = field(default_factory=set)
    number: int = 0
    """Counts transactions, so that a timeout hits the one it was set for."""


class Coordinator:
    """Of one cluster. `on_decided(commit)`: a transaction will be committed or aborted;
    `on_ended(commit)`: all its markers are written."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.faults = CoordinatorFaults()
        self.on_ended: Callable[[bool], None] = lambda _commit: None
        self.late_s = 0.0
        """The next answer takes so much longer."""
        self._on_refused: Callable[[], None] | None = None
        self._by_id: dict[str, _Transaction] = {}
        cluster.takes_transactional = self._takes

    def _takes(self, batch: Batch, key: Key) -> bool:
        return any(
            t.producer == batch.producer
            and t.epoch == batch.producer_epoch
            and t.stage is _Stage.OPEN
            and key in t.members
            for t in self._by_id.values()
        )

    def open_members(self, transactional_id: str) -> Collection[Key]:
        """The partitions of the transaction that is open or being ended."""
        known = self._by_id.get(transactional_id)
        return () if known is None else known.members

    # Requests. Each returns None where the client has to try again.

    def init(self, transactional_id: str, timeout_s: float) -> tuple[int, int] | None:
        """Claim the id: what is open is aborted, and earlier producers are fenced."""
        known = self._by_id.get(transactional_id)
        if known is None:
            known = _Transaction(self.cluster.new_producer_id(), 0, timeout_s)
            self._by_id[transactional_id] = known
            return known.producer, known.epoch
        if known.stage is _Stage.OPEN:
            known.epoch += 1
            self._end(known, ABORT)
            return None
        if known.stage is _Stage.ENDING:
            return None
        self._bump(known)
        return known.producer, known.epoch

    def _bump(self, known: _Transaction) -> None:
        if self.cluster.rng.random() < 0.05:  # as if the epochs were used up
            known.producer, known.epoch = self.cluster.new_producer_id(), 0
        else:
            known.epoch += 1

    def add(
        self, transactional_id: str, identity: tuple[int, int], keys: Sequence[Key]
    ) -> Mapping[Key, int] | None:
        """Kafka's code of each. Raises ProducerFenced."""
        known = self._current(transactional_id, identity)
        if known.stage is _Stage.ENDING:
            return None
        if self.faults.spoilt and self.cluster.rng.random() < self.faults.spoilt:
            raise AbortableTransactionError("simulated: TRANSACTION_ABORTABLE")
        if known.stage is _Stage.OPEN and self._on_refused is not None:
            refused, self._on_refused = self._on_refused, None
            self.late_s = _LATE_S
            refused()
            raise AbortableTransactionError("simulated: TRANSACTION_ABORTABLE, told late")
        faulty = self.faults.unknown_partition
        unknown = [
            key
            for key in keys
            if self.cluster.find(key) is None or (faulty and self.cluster.rng.random() < faulty)
        ]
        if unknown:
            return {
                key: UNKNOWN_TOPIC_OR_PARTITION if key in unknown else OPERATION_NOT_ATTEMPTED
                for key in keys
            }
        if known.stage is _Stage.EMPTY:
            known.stage = _Stage.OPEN
            known.number += 1
            number = known.number
            self.cluster.time.after(known.timeout_s, lambda: self._expire(known, number))
        known.members |= set(keys)
        return dict.fromkeys(keys, 0)

    def refuse_late(self, refused: Callable[[], None]) -> None:
        """Refuse the next partitions that are added to an open transaction, with an answer that
        takes long. `refused`: called when the request is there."""
        self._on_refused = refused

    def heal(self) -> None:
        """End everything that is wrong."""
        self.faults = CoordinatorFaults()
        self._on_refused = None

    def end(self, transactional_id: str, identity: tuple[int, int], kind: int) -> None:
        """Decide. Raises ProducerFenced, or AbortableTransactionError where it is not committed."""
        known = self._current(transactional_id, identity)
        assert known.stage is not _Stage.ENDING, "a transaction is ended twice"
        if kind == COMMIT:
            assert known.stage is _Stage.OPEN, "a transaction is committed that was never begun"
            if self.cluster.rng.random() < self.faults.spoilt:
                raise AbortableTransactionError("simulated: TRANSACTION_ABORTABLE")
        if known.stage is _Stage.OPEN:
            self._end(known, kind)

    def check(self, transactional_id: str, identity: tuple[int, int]) -> None:
        """Raises ProducerFenced where another producer has the id."""
        self._current(transactional_id, identity)

    def _current(self, transactional_id: str, identity: tuple[int, int]) -> _Transaction:
        known = self._by_id[transactional_id]
        if (known.producer, known.epoch) != identity:
            raise ProducerFenced("simulated: another producer has the transactional id")
        return known

    def _expire(self, known: _Transaction, number: int) -> None:
        if known.stage is _Stage.OPEN and known.number == number:
            self.cluster.note(
                f"{self.cluster.name}: a transaction timed out, its producer is fenced"
            )
            known.epoch += 1
            self._end(known, ABORT)

    # Markers.

    def _end(self, known: _Transaction, kind: int) -> None:
        known.stage = _Stage.ENDING
        known.unmarked = set(known.members)
        self.cluster.note(
            f"{self.cluster.name}: {'commit' if kind == COMMIT else 'abort'} of producer "
            f"{known.producer}/{known.epoch}, {sorted(known.members)}"
        )
        for key in sorted(known.members):
            delay = self.cluster.connections.delay * (1 + self.cluster.rng.random())
            self._mark_after(delay, known, key, kind)
        if not known.members:
            known.stage = _Stage.EMPTY

    def _mark_after(self, seconds: float, known: _Transaction, key: Key, kind: int) -> None:
        def mark() -> None:
            partition = self.cluster.find(key)
            if partition is not None:
                busy = partition.leader == NO_LEADER or not partition.replicating
                if busy or not partition.enough_replicas:
                    self._mark_after(_MARKER_RETRY_S, known, key, kind)
                    return
                now_ms = self.cluster.time.now_ms()
                partition.log.mark(known.producer, known.epoch, kind, partition.epoch, now_ms)
                partition.replicate()
                self.cluster.moved_on(partition)
            known.unmarked.discard(key)
            if not known.unmarked:
                known.stage = _Stage.EMPTY
                known.members = set()
                self.on_ended(kind == COMMIT)

        self.cluster.time.after(seconds, mark)


class SimulatedTransactions:
    """The `TransferTransactions` of one run of a task. `claim` first."""

    def __init__(
        self,
        coordinator: Coordinator,
        transactional_id: str,
        offsets_topic: str,
        *,
        timeout_s: float,
        boundary_s: float | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.offsets_topic = offsets_topic
        self.timeout_s = timeout_s
        self.boundary_s = boundary_s
        self.trouble: str | None = None
        self._coordinator = coordinator
        self._cluster = coordinator.cluster
        self._identity: tuple[int, int] | None = None
        self._closed = False
        self._open = False
        self._busy = False
        self._jobs: list[Callable[[], None]] = []

    @property
    def producer(self) -> tuple[int, int]:
        assert self._identity is not None, "not claimed"
        return self._identity

    def claim(self) -> Future[bool]:
        """Fence earlier runs; done when what they left open is ended."""
        return self._submit(self._init)

    def close(self) -> None:
        """Nothing is answered any more. What is open stays open, as after a crash."""
        self._closed = True

    def add(self, partitions: Sequence[Key]) -> Future[Mapping[Key, int]]:
        keys = tuple(partitions)

        def step() -> Mapping[Key, int] | None:
            self._open = True
            return self._coordinator.add(self.transactional_id, self.producer, keys)

        return self._submit(step)

    def commit(self, records: int) -> Future[Any]:
        def step() -> bool:
            self._end(COMMIT)
            self._open = False
            return True

        return self._submit(step)

    def abort(self, why: str) -> Future[Any]:
        def step() -> bool | None:
            if self._open:
                self._end(ABORT)
                self._open = False
            self._coordinator.check(self.transactional_id, self.producer)
            return self._init()

        return self._submit(step)

    def confirm(self) -> Future[None]:
        raise AssertionError("the copier confirms nothing")

    def note(self, records: int, ms: float) -> None:
        raise AssertionError("the copier notes nothing")

    def offset_key(self, partition: SourcePartition) -> bytes:
        return json.dumps(dict(partition), sort_keys=True).encode()

    def offset_records(self, offsets: Sequence[StoredOffset]) -> list[tuple[bytes, bytes | None]]:
        return [(self.offset_key(p), json.dumps(offset).encode()) for p, offset in offsets]

    def notes(self, partitions: Sequence[SourcePartition]) -> list[bytes | None]:
        stored = committed_offsets(self._cluster, self.offsets_topic)
        return [stored.get(self.offset_key(p), (b"", None))[1] for p in partitions]

    # Requests one after the other, each tried again until there is an answer.

    def _init(self) -> bool | None:
        found = self._coordinator.init(self.transactional_id, self.timeout_s)
        if found is None:
            return None
        self._identity = found
        return True

    def _end(self, kind: int) -> None:
        self._coordinator.end(self.transactional_id, self.producer, kind)

    def _submit(self, step: Callable[[], T | None]) -> Future[T]:
        future: Future[T] = Future()

        def attempt() -> None:
            if self._closed:
                return
            try:
                result = step()
            except ConnectError as error:
                failure = error
                self._answer(lambda: future.set_exception(failure))
                return
            if result is None:
                self._cluster.time.after(0.002 + 0.05 * self._cluster.rng.random(), attempt)
                return
            self._answer(lambda: future.set_result(result))

        def begin() -> None:
            self._cluster.time.after(self._delay(), attempt)

        self._jobs.append(begin)
        self._next()
        return future

    def _next(self) -> None:
        if self._jobs and not self._busy:
            self._busy = True
            self._jobs.pop(0)()

    def _answer(self, complete: Callable[[], None]) -> None:
        def done() -> None:
            self._busy = False
            if not self._closed:
                complete()
                self._next()

        self._cluster.time.after(self._delay(), done)

    def _delay(self) -> float:
        rng, faults = self._cluster.rng, self._coordinator.faults
        delay = self._cluster.connections.delay * (1 + rng.random())
        if faults.slow and rng.random() < faults.slow:
            delay += faults.slow_s * rng.random()
        late_s, self._coordinator.late_s = self._coordinator.late_s, 0.0
        return delay + late_s


def committed_offsets(
    cluster: Cluster, topic: str
) -> dict[bytes, tuple[bytes | None, bytes | None]]:
    """What a reader of committed records finds in an offsets topic: key -> (value, note)."""
    found: dict[bytes, tuple[bytes | None, bytes | None]] = {}
    for partition in cluster.topics[topic].partitions:
        stable = partition.log.stable
        for batch in partition.log.batches:
            if batch.next > stable:
                break
            if batch.control or (batch.transactional and batch.fate != COMMIT):
                continue
            for record in iter_records(batch.data):
                notes = [value for name, value in record.headers if name == OFFSET_NOTE]
                found[record.key or b""] = (record.value, notes[0] if notes else None)
    return found
