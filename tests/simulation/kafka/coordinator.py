"""A simulated transaction coordinator.

It keeps one transaction for each transactional id. It writes markers one by one, some time after it
has decided; until the last is there, the id can begin no other transaction. A transaction that is
older than its timeout is aborted, and its producer fenced. It answers requests by Kafka's codes;
`transactions.py` has the clients.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect.plugin import OFFSET_NOTE
from connect.protocol.records import iter_records
from tests.simulation.kafka import codes
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.log import ABORT, COMMIT, Batch
from tests.simulation.kafka.partition import NO_LEADER

__all__ = ["Claim", "Coordinator", "CoordinatorFaults", "committed_offsets"]

Key = tuple[str, int]
Identity = tuple[int, int]
"""Producer id and epoch."""

INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
INVALID_PRODUCER_ID_MAPPING = 49
OPERATION_NOT_ATTEMPTED = 55
PRODUCER_FENCED = 90
TRANSACTION_ABORTABLE = 120
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
    uncommitted: bool = False
    """Each commit is refused: abort the transaction."""
    unknown_partition: float = 0.0
    """The coordinator does not know a partition yet."""
    refused: float = 0.0
    """A request is answered with one of its retriable codes, and nothing was done."""
    lost: float = 0.0
    """The answer is lost after the request was obeyed."""


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
    ended: int | None = None
    """How the last one ended: what the request that ended it is answered when it is repeated."""
    before: Identity | None = None
    """What its owner had before the last new epoch, and may ask with again."""


class Claim(NamedTuple):
    """The answer to InitProducerId."""

    code: int
    producer: int = -1
    epoch: int = -1


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

    # Requests.

    def init(self, transactional_id: str, timeout_s: float, current: Identity | None) -> Claim:
        """Claim the id: what is open is aborted, and earlier producers are fenced. `current`: of
        the owner, that asks for another epoch."""
        known = self._by_id.get(transactional_id)
        if known is None:
            known = _Transaction(self.cluster.new_producer_id(), 0, timeout_s)
            self._by_id[transactional_id] = known
            return Claim(0, known.producer, known.epoch)
        if current is not None and current == known.before:
            return Claim(0, known.producer, known.epoch)  # The answer before was lost.
        if current is not None and current != (known.producer, known.epoch):
            return Claim(PRODUCER_FENCED)
        if known.stage is _Stage.OPEN:
            known.epoch += 1
            known.before = None
            self._end(known, ABORT)
            return Claim(codes.CONCURRENT_TRANSACTIONS)
        if known.stage is _Stage.ENDING:
            return Claim(codes.CONCURRENT_TRANSACTIONS)
        known.before = current
        if self.cluster.rng.random() < 0.05:  # as if the epochs were used up
            known.producer, known.epoch = self.cluster.new_producer_id(), 0
        else:
            known.epoch += 1
        return Claim(0, known.producer, known.epoch)

    def add(
        self, transactional_id: str, identity: Identity, keys: Sequence[Key]
    ) -> Mapping[Key, int]:
        """The code of each."""
        known = self._by_id.get(transactional_id)
        code = self._judge(known, identity)
        if code or known is None:
            return dict.fromkeys(keys, code)
        if known.stage is _Stage.ENDING:
            return dict.fromkeys(keys, codes.CONCURRENT_TRANSACTIONS)
        if self.faults.spoilt and self.cluster.rng.random() < self.faults.spoilt:
            return dict.fromkeys(keys, TRANSACTION_ABORTABLE)
        if known.stage is _Stage.OPEN and self._on_refused is not None:
            refused, self._on_refused = self._on_refused, None
            self.late_s = _LATE_S
            refused()
            return dict.fromkeys(keys, TRANSACTION_ABORTABLE)
        faulty = self.faults.unknown_partition
        unknown = [
            key
            for key in keys
            if self.cluster.find(key) is None or (faulty and self.cluster.rng.random() < faulty)
        ]
        if unknown:
            missing = codes.UNKNOWN_TOPIC_OR_PARTITION
            return {key: missing if key in unknown else OPERATION_NOT_ATTEMPTED for key in keys}
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

    def end(self, transactional_id: str, identity: Identity, kind: int) -> int:
        """Decide; the code."""
        known = self._by_id.get(transactional_id)
        code = self._judge(known, identity)
        if code or known is None:
            return code
        if known.stage is _Stage.OPEN:
            spoilt = kind == COMMIT and self.cluster.rng.random() < self.faults.spoilt
            if spoilt or (kind == COMMIT and self.faults.uncommitted):
                return TRANSACTION_ABORTABLE
            self._end(known, kind)
            return 0
        if known.ended != kind:
            return INVALID_TXN_STATE
        return codes.CONCURRENT_TRANSACTIONS if known.stage is _Stage.ENDING else 0

    @staticmethod
    def _judge(known: _Transaction | None, identity: Identity) -> int:
        if known is None:
            return INVALID_PRODUCER_ID_MAPPING
        fenced = (known.producer, known.epoch) != identity
        return INVALID_PRODUCER_EPOCH if fenced else 0

    def _expire(self, known: _Transaction, number: int) -> None:
        if known.stage is _Stage.OPEN and known.number == number:
            self.cluster.note(
                f"{self.cluster.name}: a transaction timed out, its producer is fenced"
            )
            known.epoch += 1
            known.before = None
            self._end(known, ABORT)

    # Markers.

    def _end(self, known: _Transaction, kind: int) -> None:
        known.stage = _Stage.ENDING
        known.ended = kind
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
