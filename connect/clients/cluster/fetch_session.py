"""The client's half of an incremental fetch session (KIP-227): what the broker already knows.

Within a session a fetch request names only partitions that changed, so a cycle over 10,000 idle
partitions costs as little as one over none. Pure bookkeeping: no socket, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from connect.protocol.error_codes import ErrorCode
from connect.protocol.messages import FetchPartition, TopicPartition

__all__ = ["STALE_SESSION", "FetchSession", "SessionRequest"]

STALE_SESSION = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
"""The broker has forgotten the session."""

_NO_SESSION = 0
_FIRST_EPOCH = 0
_LAST_EPOCH = 0x7FFFFFFF


class SessionRequest(NamedTuple):
    """The session fields and partitions of the next fetch request."""

    session_id: int
    epoch: int
    partitions: Mapping[TopicPartition, FetchPartition]
    forgotten: frozenset[TopicPartition]


class FetchSession:
    """One session with one broker. Use: want/drop..., next_request, accepted or reset."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: dict[TopicPartition, FetchPartition] = {}
        self._changed: dict[TopicPartition, FetchPartition] = {}
        self._removed: set[TopicPartition] = set()

    def want(self, key: TopicPartition, partition: FetchPartition) -> None:
        """Fetch this partition from now on, from this offset."""
        self._removed.discard(key)
        if self._known.get(key) == partition:
            self._changed.pop(key, None)
        else:
            self._changed[key] = partition

    def drop(self, key: TopicPartition) -> None:
        """Do not fetch this partition any more."""
        self._changed.pop(key, None)
        if key in self._known:
            self._removed.add(key)

    def requested_offset(self, key: TopicPartition) -> int | None:
        """The offset that the last request asked for; None if it did not ask for the partition."""
        known = self._known.get(key)
        return None if known is None else known.offset

    def requested(self, key: TopicPartition) -> FetchPartition | None:
        """What the last request asked for; None if it did not ask for the partition."""
        return self._known.get(key)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to fetch."""
        return not self._changed and len(self._known) == len(self._removed)

    def next_request(self) -> SessionRequest:
        """What to send now. The caller sends it, or calls `reset`."""
        for key in self._removed:
            del self._known[key]
        if self._id == _NO_SESSION:
            # Without a session brokers serve in the order of the request: who has just been served
            # (a new offset) goes behind those who have not, or a few with long histories would
            # fill every answer.
            for key in self._changed:
                self._known.pop(key, None)
        self._known.update(self._changed)
        if self._id == _NO_SESSION:
            request = SessionRequest(_NO_SESSION, _FIRST_EPOCH, dict(self._known), frozenset())
        else:
            request = SessionRequest(self._id, self._epoch, self._changed, frozenset(self._removed))
        self._changed = {}
        self._removed = set()
        return request

    def accepted(self, session_id: int) -> None:
        """The broker answered without a top-level error. `session_id` 0: it keeps no session."""
        if session_id == _NO_SESSION:
            self.reset()
        elif self._id != session_id:
            self._id = session_id
            self._epoch = 1
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """Start over with a full request: the session or the connection is gone."""
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
