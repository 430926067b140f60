"""The checkpoints that were emitted last, and which are due: MirrorMaker 2's rules, one extended.

`CheckpointBook` is pure but for a lock: one thread translates and emits, another syncs group
offsets from it. `CheckpointReader` fills it from the checkpoints topic, so that a restart does not
go back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from connect.clients.admin import Admin
from connect.clients.topic_log import LogRecord, TopicLog
from connect.clock import Deadline
from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition
from connectors.mirror.formats import Checkpoint

__all__ = ["CheckpointBook", "CheckpointReader"]

_LOG = logging.getLogger(__name__)

_CLOSE_S = 2.0

"""The topic by its name on the target."""


class CheckpointBook:
    """The last checkpoint of each group and partition. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, dict[TopicPartition, Checkpoint]] = {}

    def load(self, checkpoint: Checkpoint) -> None:
        """One that was emitted before; later ones replace earlier ones."""
        with self._lock:
            self._put(checkpoint)

    def emit(self, checkpoint: Checkpoint, *, exact: bool) -> bool:
        """Whether this one is due; if so, it counts as emitted from now on.

        It is when it is the first, the group went back on the source, or it is further on the
        target than the last one. One that is not further is due only where it is exact: the copy
        was made anew then, and what was emitted before leads nowhere.
        """
        with self._lock:
            last = self._known.get(checkpoint.group, {}).get(
                (checkpoint.topic, checkpoint.partition)
            )
            due = (
                last is None
                or checkpoint.upstream_offset < last.upstream_offset
                or checkpoint.downstream_offset > last.downstream_offset
                or (exact and checkpoint.downstream_offset < last.downstream_offset)
            )
            if due:
                self._put(checkpoint)
            return due

    def groups(self) -> dict[str, dict[TopicPartition, Checkpoint]]:
        """All checkpoints, by group."""
        with self._lock:
            return {group: dict(known) for group, known in self._known.items()}

    def _put(self, checkpoint: Checkpoint) -> None:
        known = self._known.setdefault(checkpoint.group, {})
        known[checkpoint.topic, checkpoint.partition] = checkpoint


class CheckpointReader:
    """Reads a checkpoints topic once, from its beginning to its present end."""

    def __init__(
        self,
        topic: str,
        properties: Mapping[str, str],
        take: Callable[[Checkpoint], None],
        wanted: Callable[[str], bool],
    ) -> None:
        """`properties`: Java consumer properties. `take` gets the checkpoints of wanted groups,
        oldest first, on a thread of the reader; `run` returns after the last."""
        self._topic = topic
        self._properties = properties
        self._take = take
        self._wanted = wanted
        self._log = TopicLog(topic, properties, self._record)

    def run(self, deadline: Deadline) -> None:
        """Read. A topic that does not exist holds nothing. Raises `ConnectError`."""
        admin = Admin(self._properties)
        try:
            if not admin.describe_topics([self._topic], max(1.0, deadline.remaining())):
                return
        finally:
            admin.close()
        try:
            self._log.start(deadline)
        finally:
            self.close()

    def close(self) -> None:
        """End the reading, also in the middle."""
        self._log.stop(Deadline(_CLOSE_S))

    def _record(self, record: LogRecord) -> None:
        if record.value is None:
            return
        try:
            checkpoint = Checkpoint.decode(record.key or b"", record.value)
        except CorruptData as error:
            _LOG.warning("record %d of %s is left out: %s", record.offset, self._topic, error)
            return
        if self._wanted(checkpoint.group):
            self._take(checkpoint)
