"""Compares the ends of target partitions with the source after a crash, on a few threads.

The copy engine requests the comparison (`copy/positions/tail_checks.py`); `target_tail.py` reads
and compares. This module opens its own cluster links, so it can be closed before the engine's. The
Spark engine, which has no other link to the target, also gets the IDs of the target's topics here.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import CancelledError, Future
from typing import Literal
from uuid import UUID

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.list_offsets import EARLIEST, LATEST, OffsetResult
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
        self._source: _Watching | None = None
        self._target: _Watching | None = None
        self._pool: OwnedPool | None = None
        self._stopped = threading.Event()

    def look(self, question: TailQuestion) -> Future[FoundTail]:
        if self._pool is None:
            self._pool = OwnedPool(_THREADS, "mirror-tail")
        if self._source is None:
            self._source = _Watching(self._settings[0], "mirror-tail-source")
        source = self._source.also((question.source[0],))
        target = self._of_target().also((question.target[0],))
        return self._pool.submit(self._look, (source, target), question)

    def target_ends(
        self, targets: Collection[TopicPartition]
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        """Return the log end offset of each target partition, or its error, without blocking. One
        request for each leader tells which partitions have nothing to compare."""
        target = self._of_target().also({topic for topic, _ in targets})
        return target.list_offsets(targets, LATEST, 0, _ASK_S)

    def watch_targets(self, topics: Collection[str]) -> None:
        """Set the target's topics whose IDs are known soon, and renewed with all metadata."""
        self._of_target().only(topics)

    def refresh_target_ids(self, topics: Collection[str]) -> None:
        """Request the IDs of these topics of the target now, without blocking."""
        self._of_target().also(topics).request_refresh(topics)

    @property
    def target_topic_ids(self) -> Mapping[str, UUID]:
        """Return the IDs of the target's topics that were asked about, as far as known. A changed
        state is a new mapping."""
        return {} if self._target is None else self._target.link.snapshot.topic_ids

    def _of_target(self) -> _Watching:
        if self._target is None:
            self._target = _Watching(self._settings[1], "mirror-tail-target")
        return self._target

    def _look(self, links: tuple[ClusterLink, ClusterLink], question: TailQuestion) -> FoundTail:
        source, target = links
        isolation: Literal[0, 1] = 1 if self._read_committed else 0
        asked = source.list_offsets((question.source,), LATEST, isolation, _ASK_S)
        # Uncommitted records are not compared.
        there = target.list_offsets((question.target,), LATEST, 1, _ASK_S)
        begins = target.list_offsets((question.target,), EARLIEST, 0, _ASK_S)
        try:
            end = asked.result(_WAIT_S)[question.source]
            target_end = there.result(_WAIT_S)[question.target]
            log_start = begins.result(_WAIT_S)[question.target]
        except (TimeoutError, CancelledError) as error:
            raise DeadlineExceeded("listing the offsets of both logs timed out") from error
        for listed in (end, target_end, log_start):
            if isinstance(listed, ConnectError):
                raise listed
        assert isinstance(end, int)
        assert isinstance(target_end, int)
        assert isinstance(log_start, int)
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
            log_start=log_start,
        )

    def close(self) -> None:
        """Close at once. Running comparisons end within `_STALL_S`."""
        self._stopped.set()
        for side in (self._source, self._target):
            if side is not None:
                side.link.close()
        if self._pool is not None:
            # A thread that waits for a silent broker ends with its timeout and changes nothing.
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


class _Watching:
    """The link to one cluster, and the topics that it watches."""

    def __init__(self, settings: WireSettings, name: str) -> None:
        self.link = ClusterLink(settings, lambda: None, name=name)
        self._topics: set[str] = set()

    def only(self, topics: Collection[str]) -> None:
        """Watch these topics and no others."""
        self._topics = set(topics)
        self.link.watch_topics(self._topics)

    def also(self, topics: Collection[str]) -> ClusterLink:
        """Return the link, which watches these topics, too."""
        if not self._topics.issuperset(topics):
            self._topics.update(topics)
            self.link.watch_topics(self._topics)
        return self.link
