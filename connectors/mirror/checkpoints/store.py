"""The last emitted checkpoints, and which new ones are due: MirrorMaker 2's rules with one
extension.

`CheckpointBook` is pure except for a lock: one thread translates and emits, and another syncs group
offsets from it. `CheckpointReader` loads it from the checkpoints topic, so that a restart never
moves groups back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import closing

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.topic_log import LogRecord, TopicLog
from connect.clock import Deadline
from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition
from connectors.mirror.formats import Checkpoint
from connectors.mirror.offsets.translation import Place

__all__ = ["CheckpointBook", "CheckpointReader", "Void"]

_LOG = logging.getLogger(__name__)

_CLOSE_S = 2.0

Void = Mapping[str, Mapping[TopicPartition, int]]
"""The highest emitted target offset that is no longer valid, by group and target partition."""


class CheckpointBook:
    """The last checkpoint of each group and partition. Thread-safe.

    After the target lost records or was re-created, an earlier checkpoint may point past later
    records. Then a checkpoint with a lower offset is emitted. The offset that the earlier
    checkpoint committed for the group on the target is `void` until it is replaced (`settle`).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._losses: dict[str, dict[TopicPartition, int]] = {}
        """The loss number (`translation.Place.loss`) of the last translations, if not 0. Loaded
        checkpoints have none, because they may be older than any loss."""
        self._void: dict[str, dict[TopicPartition, int]] = {}

    def load(self, checkpoint: Checkpoint) -> None:
        """Load a checkpoint that was emitted earlier. Later ones replace earlier ones."""
        with self._lock:
            self._put(checkpoint)

    def last(self, group: str, key: TopicPartition) -> Checkpoint | None:
        """Return the last checkpoint of a group and target partition."""
        with self._lock:
            return self._known.get(group, {}).get(key)

    def is_void(self, last: Checkpoint, now: Place) -> bool:
        """Whether a checkpoint is no longer valid. `now`: the current translation of its source
        offset."""
        if now.offset >= last.downstream_offset:
            return False
        with self._lock:
            return now.exact or now.loss > self._loss_of(last)

    def _loss_of(self, last: Checkpoint) -> int:
        return self._losses.get(last.group, {}).get((last.topic, last.partition), 0)

    def emit(self, checkpoint: Checkpoint, place: Place, void: int | None = None) -> bool:
        """Whether this checkpoint is due. A due one counts as emitted from now on.

        A checkpoint is due if it is the first, if the group moved back on the source, or if its
        target offset is higher than the last one's. Otherwise it is due only if it is exact, or if
        the target lost records since, because the last checkpoint then points past records.

        `place`: the translation. `void`: if the group moved back on the source, the last
        checkpoint's target offset if it is no longer valid.
        """
        with self._lock:
            key = (checkpoint.topic, checkpoint.partition)
            last = self._known.get(checkpoint.group, {}).get(key)
            due = (
                last is None
                or checkpoint.upstream_offset < last.upstream_offset
                or checkpoint.downstream_offset > last.downstream_offset
                or (
                    checkpoint.downstream_offset < last.downstream_offset
                    and (place.exact or place.loss > self._loss_of(last))
                )
            )
            if last is not None and checkpoint.upstream_offset >= last.upstream_offset:
                # It may lead past records even if this one is further: the group may move back.
                void = last.downstream_offset if place.loss > self._loss_of(last) else None
            if place.loss:
                self._losses.setdefault(checkpoint.group, {})[key] = place.loss
            if due:
                self._put(checkpoint, void)
            return due

    def groups(self) -> dict[str, dict[TopicPartition, Checkpoint]]:
        """Return all checkpoints, by group."""
        with self._lock:
            return {group: dict(known) for group, known in self._known.items()}

    def void(self) -> dict[str, dict[TopicPartition, int]]:
        """Return emitted target offsets that are no longer valid. A group's offset that is
        committed on the target beyond its checkpoint, up to the void offset, must move back to the
        checkpoint."""
        with self._lock:
            return {group: dict(void) for group, void in self._void.items()}

    def settle(self, void: Void) -> None:
        """Drop the void offsets of groups that have their checkpoint's offset on the target, or
        moved on by themselves."""
        with self._lock:
            for group, of_group in void.items():
                known = self._void.get(group, {})
                for key, offset in of_group.items():
                    if known.get(key) == offset:
                        del known[key]
                if not known:
                    self._void.pop(group, None)

    def _put(self, checkpoint: Checkpoint, void: int | None = None) -> None:
        key = (checkpoint.topic, checkpoint.partition)
        known = self._known.setdefault(checkpoint.group, {})
        last = known.get(key)
        known[key] = checkpoint
        if last is not None and checkpoint.upstream_offset >= last.upstream_offset:
            corrected = checkpoint.downstream_offset < last.downstream_offset
            void = last.downstream_offset if corrected else void
        if void is not None:
            of_group = self._void.setdefault(checkpoint.group, {})
            of_group[key] = max(void, of_group.get(key, -1))


class CheckpointReader:
    """Reads a checkpoints topic once, from its start to its current end."""

    def __init__(
        self,
        topic: str,
        properties: Mapping[str, str],
        take: Callable[[Checkpoint], None],
        wanted: Callable[[str], bool],
    ) -> None:
        """`properties`: Java consumer properties. `take` receives the checkpoints of wanted groups,
        oldest first, on a thread of the reader. `run` returns after the last one."""
        self._topic = topic
        self._properties = properties
        self._take = take
        self._wanted = wanted
        self._log = TopicLog(topic, properties, self._record)

    def run(self, deadline: Deadline) -> None:
        """Read the topic. A missing topic counts as empty. Raises `ConnectError`."""
        with closing(Admin(self._properties)) as admin:
            if not admin.describe_topics([self._topic], max(1.0, deadline.remaining())):
                return
        try:
            self._log.start(deadline)
        finally:
            self.close()

    def close(self) -> None:
        """Stop reading, even before the end."""
        self._log.stop(Deadline(_CLOSE_S))

    def _record(self, record: LogRecord) -> None:
        if record.value is None:
            return
        try:
            checkpoint = Checkpoint.decode(record.key or b"", record.value)
        except CorruptData as error:
            _LOG.warning("skipping record %d of %s: %s", record.offset, self._topic, error)
            return
        if self._wanted(checkpoint.group):
            self._take(checkpoint)
