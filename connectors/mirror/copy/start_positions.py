"""Where to begin a partition: without a stored offset, and after the source lost what was next.

Asks the source for its earliest or latest offsets, in one request for all partitions that wait,
and tries again until it knows. Runs on the copy engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future

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

Located = Mapping[TopicPartition, "int | ConnectError"]


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
        self._waiting: dict[TopicPartition, PartitionCopy] = {}
        self._asked = False
        self._closed = False

    def locate(self, partition: PartitionCopy) -> None:
        """Find the offset to begin this partition at."""
        if self._fetch.auto_offset_reset == "none":
            partition.source_error = (
                f"there is no usable offset for {partition.source[0]}-{partition.source[1]} and "
                "auto.offset.reset=none forbids choosing one: set it to earliest or latest, or "
                "store an offset"
            )
            return
        self._waiting[partition.source] = partition
        self._loop.post(self._ask)

    def _ask(self) -> None:
        if self._asked or self._closed:
            return
        for key in [key for key, partition in self._waiting.items() if partition.leaving]:
            del self._waiting[key]
        if not self._waiting:
            return
        self._asked = True
        kind = LATEST if self._fetch.auto_offset_reset == "latest" else EARLIEST
        future = self._link.list_offsets(tuple(self._waiting), kind, self._fetch.isolation_level)
        future.add_done_callback(lambda done: self._loop.post(lambda: self._answered(done)))

    def _answered(self, future: Future[Located]) -> None:
        self._asked = False
        try:
            located = future.result(timeout=0)
        except CancelledError:
            return
        except ConnectError as error:
            _LOG.warning("cannot list the source's offsets: %s; trying again", error)
            for partition in self._waiting.values():
                partition.source_error = str(error)
            self._loop.after(_RETRY_S, self._ask)
            return
        for key, offset in located.items():
            waiting = self._waiting.get(key)
            if waiting is None:
                continue
            if isinstance(offset, ConnectError):
                waiting.source_error = str(offset)
                continue
            del self._waiting[key]
            self._set(waiting, offset)
        if self._waiting:
            self._loop.after(_RETRY_S, self._ask)

    def _set(self, partition: PartitionCopy, offset: int) -> None:
        before = partition.position
        if before != UNKNOWN:
            name = f"{partition.source[0]}-{partition.source[1]}"
            if offset > before:
                _LOG.error(
                    "%s: the source no longer has offsets %d to %d: they were deleted before they "
                    "were copied; going on at %d",
                    name,
                    before,
                    offset - 1,
                    offset,
                )
                partition.lost_records += offset - before
            else:
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
