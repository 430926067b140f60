"""Where to begin a partition: without a stored offset, and after the source lost what was next.

Asks the source for its earliest or latest offsets, in one request for all partitions that wait,
and tries again until it knows. Runs on the copy engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass

from connect.clients.cluster_link import ClusterLink
from connect.clients.selector_loop import SelectorLoop
from connect.clients.settings import FetchSettings
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.partition import UNKNOWN, PartitionCopy

__all__ = ["StartPositions"]

_LOG = logging.getLogger(__name__)

EARLIEST = -2
LATEST = -1
_RETRY_S = 1.0
_PENDING_S = 0.1

_ASK_TIMEOUT_S = 5.0
"""Partitions that can be answered wait no longer for those that cannot."""

Located = Mapping[TopicPartition, "int | ConnectError"]


@dataclass(frozen=True, slots=True)
class _Search:
    partition: PartitionCopy
    kind: int
    created_again: bool = False


class StartPositions:
    """See the module. `on_located(partition)` is called once its position is set."""

    def __init__(
        self,
        link: ClusterLink,
        loop: SelectorLoop,
        fetch: FetchSettings,
        on_located: Callable[[PartitionCopy], None],
    ) -> None:
        self._link = link
        self._loop = loop
        self._fetch = fetch
        self._on_located = on_located
        self._waiting: dict[TopicPartition, _Search] = {}
        self._asked = False
        self._retry_posted = False
        self._closed = False

    def locate(self, partition: PartitionCopy) -> None:
        """Find the offset to begin this partition at, as auto.offset.reset says."""
        if self._fetch.auto_offset_reset == "none":
            partition.source_error = (
                f"there is no usable offset for {partition.source[0]}-{partition.source[1]} and "
                "auto.offset.reset=none forbids choosing one: set it to earliest or latest, or "
                "store an offset"
            )
            return
        kind = LATEST if self._fetch.auto_offset_reset == "latest" else EARLIEST
        known = self._waiting.get(partition.source)
        if known is None or known.partition is not partition:
            self._search(_Search(partition, kind))

    def begin_again(self, partition: PartitionCopy) -> None:
        """Begin at the first record of a topic that was created again."""
        self._search(_Search(partition, EARLIEST, created_again=True))

    def _search(self, search: _Search) -> None:
        self._waiting[search.partition.source] = search
        self._loop.post(self.ask)

    def _ask_after(self, seconds: float) -> None:
        if not self._retry_posted:
            self._retry_posted = True
            self._loop.after(seconds, self._ask_again)

    def _ask_again(self) -> None:
        self._retry_posted = False
        self.ask()

    def ask(self) -> None:
        """Ask for what waits. Call when the source's leaders may be others."""
        if self._asked or self._closed:
            return
        for key in [key for key, search in self._waiting.items() if search.partition.leaving]:
            del self._waiting[key]
        if not self._waiting:
            return
        # What was fetched before is copied before: until then its positions are not replaced.
        idle = [s for s in self._waiting.values() if not s.partition.queue]
        idle = [s for s in idle if not s.partition.in_flight]
        led = [s for s in idle if s.partition.source in self._link.snapshot.leaders]
        if not led:
            self._ask_after(_RETRY_S if idle else _PENDING_S)
            return
        kind = led[0].kind
        keys = tuple(s.partition.source for s in led if s.kind == kind)
        self._asked = True
        isolation = self._fetch.isolation_level
        future = self._link.list_offsets(keys, kind, isolation, _ASK_TIMEOUT_S)
        asked = {key: self._waiting[key] for key in keys}
        future.add_done_callback(lambda done: self._loop.post(lambda: self._answered(done, asked)))

    def _answered(self, future: Future[Located], asked: Mapping[TopicPartition, _Search]) -> None:
        self._asked = False
        try:
            located = future.result(timeout=0)
        except CancelledError:
            return
        except ConnectError as error:
            _LOG.warning("cannot list the source's offsets: %s; trying again", error)
            for search in asked.values():
                search.partition.source_error = str(error)
            self._ask_after(_RETRY_S)
            return
        failed = False
        for key, offset in located.items():
            search = asked[key]
            if self._waiting.get(key) is not search:
                continue  # it is searched anew
            if search.partition.leaving:
                del self._waiting[key]
                continue
            if isinstance(offset, ConnectError):
                search.partition.source_error = str(offset)
                failed = True
                continue
            del self._waiting[key]
            self._set(search, offset)
        if self._waiting:
            self._ask_after(_RETRY_S if failed else 0.0)

    def _set(self, search: _Search, offset: int) -> None:
        partition = search.partition
        before = partition.position
        name = f"{partition.source[0]}-{partition.source[1]}"
        if search.created_again:
            _LOG.error(
                "%s: the source's topic was deleted and created again; offset %d was next, now "
                "copying the new topic from %d",
                name,
                before,
                offset,
            )
        elif before != UNKNOWN and offset > before:
            _LOG.error(
                "%s: the source no longer has offsets %d to %d: they were deleted before they "
                "were copied; going on at %d",
                name,
                before,
                offset - 1,
                offset,
            )
            partition.lost_records += offset - before
        elif before != UNKNOWN:
            _LOG.error(
                "%s: the source ends before offset %d, which was next: it was truncated or "
                "re-created; copying again from %d",
                name,
                before,
                offset,
            )
        partition.source_error = None
        partition.position = offset
        partition.skipped_to(offset)
        self._on_located(partition)

    def close(self) -> None:
        self._closed = True
