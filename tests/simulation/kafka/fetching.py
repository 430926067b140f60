"""Fetch at a simulated broker: sessions (KIP-227), topics by name and by ID (KIP-516), waiting for
data, and reading the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.kafka import codes
from tests.simulation.kafka.network import Connection
from tests.simulation.kafka.partition import SimulatedPartition
from tests.simulation.kafka.wire_format import Asked, FetchedPart, FetchRequest, Key

if TYPE_CHECKING:
    from tests.simulation.kafka.broker import Broker

__all__ = ["FetchSession", "FetchSessions", "WaitingFetch"]

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103
FETCH_SESSION_TOPIC_ID_ERROR = 106
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75


class FetchSession:
    """`wanted`: partition -> (leader epoch, offset, most bytes); `told`: partition -> (high
    watermark, last stable offset, log start) of the last answer."""

    def __init__(self, session_id: int, epoch: int) -> None:
        self.id = session_id
        self.epoch = epoch
        self.by_id = False
        self.wanted: dict[Asked, tuple[int, int, int]] = {}
        self.told: dict[Asked, tuple[int, int, int]] = {}


class FetchSessions:
    """Those of one broker."""

    def __init__(self) -> None:
        self._sessions: dict[int, FetchSession] = {}
        self._next_id = 0

    def open(
        self, request: FetchRequest, evicted: bool, none: bool
    ) -> tuple[int, FetchSession | None]:
        """(error code, session) of a request."""
        if request.session_epoch == 0 or request.session_epoch == -1:
            self._sessions.pop(request.session_id, None)
            if none or request.session_epoch == -1:
                made = FetchSession(0, 0)
            else:
                self._next_id += 1
                made = FetchSession(self._next_id, 1)
                self._sessions[made.id] = made
            made.wanted.update(request.wanted)
            made.by_id = request.by_id
            return 0, made
        session = self._sessions.get(request.session_id)
        if session is None or evicted:
            self._sessions.pop(request.session_id, None)
            return FETCH_SESSION_ID_NOT_FOUND, None
        if session.epoch != request.session_epoch:
            return INVALID_FETCH_SESSION_EPOCH, None
        if session.by_id != request.by_id:
            return FETCH_SESSION_TOPIC_ID_ERROR, None
        session.epoch += 1
        for key in request.forgotten:
            session.wanted.pop(key, None)
            session.told.pop(key, None)
        session.wanted.update(request.wanted)
        return 0, session


class WaitingFetch:
    """A fetch that is answered when there is enough, when something failed, or when it waited
    for its time."""

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        correlation: int,
        request: FetchRequest,
        session: FetchSession,
    ) -> None:
        self.connection = connection
        self.correlation = correlation
        self.session = session
        self.by_id = request.by_id
        self._broker = broker
        self._request = request

    def read(self, *, timed_out: bool) -> list[FetchedPart] | None:
        """The answer; None: it waits."""
        parts: list[FetchedPart] = []
        left = self._request.max_bytes
        total = 0
        failed = False
        rng, faults = self._broker.rng, self._broker.cluster.faults
        for asked, wanted in self.session.wanted.items():
            key, error = self._find(asked)
            if faults.fetch_error and rng.random() < faults.fetch_error:
                part = _failed(key, rng.choice(codes.FETCH_BY_ID if self.by_id else codes.FETCH))
            elif error:
                part = _failed(key, error)
            else:
                part = self._read(key, wanted, left, first=not total)
            if isinstance(asked[0], UUID):
                part = part._replace(topic_id=asked[0])
            left -= len(part.records)
            total += len(part.records)
            failed = failed or bool(part.error)
            parts.append(part)
        if total < max(1, self._request.min_bytes) and not failed and not timed_out:
            return None
        return self._changed(parts)

    def _find(self, asked: Asked) -> tuple[Key, int]:
        """(partition, error code)"""
        topic, number = asked
        if not isinstance(topic, UUID):
            return (topic, number), 0
        cluster = self._broker.cluster
        name = next((each for each, ids in cluster.ids.items() if topic in ids), "")
        present = cluster.topics.get(name)
        if present is not None and present.id == topic:
            return (name, number), 0
        gone = UNKNOWN_TOPIC_OR_PARTITION if name else UNKNOWN_TOPIC_ID
        if present is not None:
            gone = INCONSISTENT_TOPIC_ID
        # A broker that did not have the topic in its session does not know the name.
        return (name, number), self._broker.rng.choice((gone, UNKNOWN_TOPIC_ID))

    def _changed(self, parts: list[FetchedPart]) -> list[FetchedPart]:
        session = self.session
        full = session.id == 0 or session.epoch == 1
        found: list[FetchedPart] = []
        for part in parts:
            facts = (part.high, part.stable, part.log_start)
            asked = (part.topic_id or part.key[0], part.key[1])
            if full or part.records or part.error or session.told.get(asked) != facts:
                found.append(part)
            session.told[asked] = facts
            if part.records:  # who was served goes behind those who were not
                session.wanted[asked] = session.wanted.pop(asked)
        return found

    def _read(
        self, key: Key, wanted: tuple[int, int, int], left: int, *, first: bool
    ) -> FetchedPart:
        epoch, offset, most = wanted
        partition = self._broker.cluster.find(key)
        if partition is None:
            return _failed(key, UNKNOWN_TOPIC_OR_PARTITION)
        if partition.leader != self._broker.node_id:
            return _failed(key, NOT_LEADER_OR_FOLLOWER)
        if 0 <= epoch < partition.epoch:
            return _failed(key, FENCED_LEADER_EPOCH)
        if epoch > partition.epoch:
            return _failed(key, UNKNOWN_LEADER_EPOCH)
        log = partition.log
        if not log.start <= offset <= log.end:
            return _failed(key, OFFSET_OUT_OF_RANGE)
        committed = self._request.isolation == 1
        end = log.stable if committed else log.high
        records, read_to = _records(partition, offset, end, min(most, left), first=first)
        aborted = log.aborted_between(offset, read_to) if committed else None
        return FetchedPart(
            key, 0, log.high, log.stable if committed else -1, log.start, aborted, records
        )


def _records(
    partition: SimulatedPartition, offset: int, end: int, most: int, *, first: bool
) -> tuple[bytes, int]:
    """As much as there is room for, the last batch cut off; and the offset read up to. The first
    batch of an answer is always whole."""
    found: list[bytes] = []
    size = 0
    read_to = offset
    for batch in partition.log.from_offset(offset):
        if batch.next > end:
            break
        if size + len(batch.data) > most and not (first and not found):
            found.append(batch.data[: max(0, most - size)])
            break
        found.append(batch.data)
        size += len(batch.data)
        read_to = batch.next
        if size >= most:
            break
    return b"".join(found), read_to


def _failed(key: Key, code: int) -> FetchedPart:
    return FetchedPart(key, code, -1, -1, -1, None, b"")
