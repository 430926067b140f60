"""Compares the ends of target partitions with the source after a crash, on a few threads.

The copy engine requests the comparison (`copy/positions/tail_checks.py`); `target_tail.py` reads
and compares. This module opens its own cluster links, so it can be closed before the engine's.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import CancelledError, Future
from typing import Literal
from uuid import UUID

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.list_offsets import LATEST, OffsetResult
from connect.clients.config.settings import WireSettings
from connect.errors import BrokerUnavailable, ConnectError, DeadlineExceeded
from connect.log_fields import OwnedPool
from connect.protocol.messages import TopicPartition
from connectors.mirror.compare.target_tail import Tail, TailReader
from connectors.mirror.copy.positions.tail_checks import FoundTail, TailQuestion

__all__ = ["ThreadedTailLookup"]

_THREADS = 2
_STALL_S = 10.0
_ASK_S = 10.0
_WAIT_S = _ASK_S + 5.0


class ThreadedTailLookup:
    """Compares log ends on worker threads. Its methods belong to one thread. Threads and
    connections are created when something is first asked."""

    def __init__(self, source: WireSettings, target: WireSettings, *, read_committed: bool) -> None:
        self._settings = (source, target)
        self._read_committed = read_committed
        self._links: tuple[ClusterLink, ClusterLink] | None = None
        self._topics: tuple[set[str], set[str]] = (set(), set())
        self._pool: OwnedPool | None = None
        self._stopped = threading.Event()

    def look(self, question: TailQuestion) -> Future[FoundTail]:
        pool, links = self._opened()
        self._watch(0, (question.source[0],))
        self._watch(1, (question.target[0],))
        return pool.submit(self._look, links, question)

    def target_ends(
        self, targets: Collection[TopicPartition]
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        """Return the log end offset of each target partition, or its error, without blocking. One
        request for each leader tells which partitions have nothing to compare."""
        _, (_, target) = self._opened()
        self._watch(1, {topic for topic, _ in targets})
        return target.list_offsets(targets, LATEST, 0, _ASK_S)

    @property
    def target_topic_ids(self) -> Mapping[str, UUID]:
        """Return the IDs of the topics that were asked about, as far as known."""
        return {} if self._links is None else self._links[1].snapshot.topic_ids

    def _opened(self) -> tuple[OwnedPool, tuple[ClusterLink, ClusterLink]]:
        if self._pool is None or self._links is None:
            self._pool = OwnedPool(_THREADS, "mirror-tail")
            source, target = self._settings
            self._links = (
                ClusterLink(source, lambda: None, name="mirror-tail-source"),
                ClusterLink(target, lambda: None, name="mirror-tail-target"),
            )
        return self._pool, self._links

    def _watch(self, side: int, topics: Collection[str]) -> None:
        watched = self._topics[side]
        if self._links is not None and not watched.issuperset(topics):
            watched.update(topics)
            self._links[side].watch_topics(watched)

    def _look(self, links: tuple[ClusterLink, ClusterLink], question: TailQuestion) -> FoundTail:
        source, target = links
        isolation: Literal[0, 1] = 1 if self._read_committed else 0
        asked = source.list_offsets((question.source,), LATEST, isolation, _ASK_S)
        # Uncommitted records are not compared.
        there = target.list_offsets((question.target,), LATEST, 1, _ASK_S)
        try:
            end = asked.result(_WAIT_S)[question.source]
            target_end = there.result(_WAIT_S)[question.target]
        except (TimeoutError, CancelledError) as error:
            raise DeadlineExceeded("listing the end offsets of both logs timed out") from error
        for listed in (end, target_end):
            if isinstance(listed, ConnectError):
                raise listed
        assert isinstance(end, int)
        assert isinstance(target_end, int)
        if question.target_end is not None:
            target_end = min(target_end, question.target_end)
        if target_end <= question.target_start:
            return Tail((), question.source_start, None)
        if self._stopped.is_set():
            raise BrokerUnavailable("the task is stopping")
        reader = TailReader(
            source, target, self._read_committed, stall_s=_STALL_S, stopped=self._stopped
        )
        return reader.look(
            question.source,
            question.target,
            (question.source_start, end),
            (question.target_start, target_end),
            timestamps=None,
        )

    def close(self) -> None:
        """Close at once. Running comparisons end within `_STALL_S`."""
        self._stopped.set()
        if self._links is not None:
            for link in self._links:
                link.close()
        if self._pool is not None:
            # A thread that waits for a silent broker ends with its timeout and changes nothing.
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
