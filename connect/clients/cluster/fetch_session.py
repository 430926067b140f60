"""The client's half of an incremental fetch session (KIP-227): the state that the broker knows.

Within a session a fetch request contains only partitions that changed, so an empty fetch costs as
little for 10,000 partitions as for one. Pure bookkeeping: no socket, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from connect.protocol.error_codes import ErrorCode
from connect.protocol.messages import FetchPartition, TopicPartition

__all__ = ["STALE_SESSION", "FetchSession", "SessionRequest"]

STALE_SESSION = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""The error codes with which a broker reports that it dropped the fetch session."""

_NO_SESSION = 0
_FIRST_EPOCH = 0
_LAST_EPOCH = 0x7FFFFFFF


class SessionRequest(NamedTuple):
    """The session fields and partitions of the next fetch request.

    A request by name has `forgotten`. One by topic ID has `forgotten_ids`, (partition number, ID):
    also of partitions whose topic has another ID now.
    """

    session_id: int
    epoch: int
    partitions: Mapping[TopicPartition, FetchPartition]
    forgotten: frozenset[TopicPartition]
    forgotten_ids: Sequence[tuple[int, UUID]] = ()


class FetchSession:
    """A session with one broker.

    Call `want` and `drop` as needed, then `next_request`, then `accepted` or `reset`.
    """

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: dict[TopicPartition, FetchPartition] = {}
        self._changed: dict[TopicPartition, FetchPartition] = {}
        self._removed: set[TopicPartition] = set()
        self._without_id: set[TopicPartition] = set()
        self.names: dict[bytes, str] = {}
        """The topics of the IDs that were requested."""

    @property
    def has_ids(self) -> bool:
        """Whether the topic IDs of all partitions are known."""
        return not self._without_id

    def want(self, key: TopicPartition, partition: FetchPartition) -> None:
        """Fetch this partition from this offset on."""
        self._removed.discard(key)
        if partition.topic_id is None:
            self._without_id.add(key)
        elif self._without_id:
            self._without_id.discard(key)
        if self._known.get(key) == partition:
            self._changed.pop(key, None)
        else:
            self._changed[key] = partition

    def drop(self, key: TopicPartition) -> None:
        """Stop fetching this partition."""
        self._changed.pop(key, None)
        self._without_id.discard(key)
        if key in self._known:
            self._removed.add(key)

    def wants(self, key: TopicPartition) -> bool:
        """Whether the next fetch is for this partition too."""
        return key in self._changed or (key in self._known and key not in self._removed)

    def requested_offset(self, key: TopicPartition) -> int | None:
        """Return the offset in the last request, or None if it did not contain the partition."""
        known = self._known.get(key)
        return None if known is None else known.offset

    def requested(self, key: TopicPartition) -> FetchPartition | None:
        """Return the partition as in the last request, or None if it did not contain it."""
        return self._known.get(key)

    def smallest_request(self) -> int:
        """Return the least bytes that the next fetch requests of a partition; 0 if it has none."""
        wanted = {key: each for key, each in self._known.items() if key not in self._removed}
        wanted.update(self._changed)
        return min((each.max_bytes for each in wanted.values()), default=0)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to fetch."""
        return not self._changed and len(self._known) == len(self._removed)

    def next_request(self) -> SessionRequest:
        """Return the next request. The caller sends it, or calls `reset`."""
        former = [(key, self._known.pop(key)) for key in self._removed]
        for key, changed in self._changed.items():
            known = self._known.get(key)
            if known is None or known.topic_id is not changed.topic_id:
                self._note_id(key, changed)
                if known is not None and known.topic_id != changed.topic_id:
                    former.append((key, known))
        if self._id == _NO_SESSION:
            # Without a session brokers serve partitions in request order. Partitions that were just
            # served (they have a new offset) go to the end, so that a few with much data do not
            # fill every response.
            for key in self._changed:
                self._known.pop(key, None)
        self._known.update(self._changed)
        if self._id == _NO_SESSION:
            request = SessionRequest(_NO_SESSION, _FIRST_EPOCH, dict(self._known), frozenset())
        else:
            ids = [(key[1], p.topic_id) for key, p in former if p.topic_id is not None]
            request = SessionRequest(
                self._id, self._epoch, self._changed, frozenset(self._removed), ids
            )
        self._changed = {}
        self._removed = set()
        return request

    def _note_id(self, key: TopicPartition, partition: FetchPartition) -> None:
        if partition.topic_id is not None:
            self.names[partition.topic_id.bytes] = key[0]

    def accepted(self, session_id: int) -> None:
        """Record a response without a top-level error. `session_id` 0 means that the broker keeps
        no session.
        """
        if session_id == _NO_SESSION:
            self.reset()
        elif self._id != session_id:
            self._id = session_id
            self._epoch = 1
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """Start over with a full request, after the session or the connection was lost."""
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
