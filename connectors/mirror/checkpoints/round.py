"""One round of a checkpoint task: read committed offsets, translate them, select due checkpoints.

It has no threads or timers. The task's loop calls it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from connect.clients.groups.consumer_groups import Committed
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.checkpoints.store import CheckpointBook
from connectors.mirror.filters import TopicFilter
from connectors.mirror.formats import Checkpoint
from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset, Translator
from connectors.mirror.replication_policy import ReplicationPolicy

__all__ = ["CheckpointRounds", "Emission", "SourceGroups", "group_offsets", "target_topic"]

_LOG = logging.getLogger(__name__)


class Emission(NamedTuple):
    """The result of a round: checkpoints to write, and when their groups' offsets were read (ms
    since the epoch). `known`: at least one offset was translated, or there was none to translate.
    `unread`: error messages of groups whose offsets could not be read."""

    checkpoints: list[Checkpoint]
    read_at_ms: int
    known: bool
    unread: str | None = None


class SourceGroups(Protocol):
    """The groups of the source (`connect.clients.groups.consumer_groups.ConsumerGroups`)."""

    def committed(
        self, groups: Iterable[str], deadline: Deadline
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | ConnectError]: ...


def group_offsets(
    committed: Mapping[str, Mapping[tuple[str, int], Committed]], topics: TopicFilter
) -> list[GroupOffset]:
    """Return the offsets to translate: those of mirrored topics, without expired ones."""
    return [
        GroupOffset(group, topic, partition, each.offset, each.metadata)
        for group, offsets in committed.items()
        for (topic, partition), each in offsets.items()
        if each.offset is not None and topics.should_replicate_topic(topic)
    ]


def target_topic(
    policy: ReplicationPolicy, source_alias: str, target_alias: str, topic: str
) -> str:
    """Return the target's name of a topic that a group of the source reads. A topic that was copied
    from the target has its original name there."""
    if policy.topic_source(topic) == target_alias:
        return policy.original_topic(topic)
    return policy.remote_topic(source_alias, topic)


@dataclass(frozen=True, slots=True)
class CheckpointRounds:
    """Runs rounds. Holds what is the same in every round."""

    source_alias: str
    target_alias: str
    groups: Sequence[str]
    policy: ReplicationPolicy
    topics: TopicFilter
    book: CheckpointBook
    clock: Clock = SYSTEM_CLOCK

    def run(self, source: SourceGroups, translator: Translator, deadline: Deadline) -> Emission:
        """Run a round. A group whose offsets cannot be read does not block others, unless all fail.
        Raises `ConnectError`."""
        read_at_ms = self.clock.now_ms()
        committed, unread = self._read(source, deadline)
        offsets = group_offsets(committed, self.topics)
        last = [self.book.last(each.group, self._target_of(each)) for each in offsets]
        # If a group moved back, its last checkpoint may be void too.
        before = {
            number: each._replace(offset=checkpoint.upstream_offset)
            for number, (each, checkpoint) in enumerate(zip(offsets, last, strict=True))
            if checkpoint is not None and each.offset < checkpoint.upstream_offset
        }
        places = translator.translate([*offsets, *before.values()], deadline)
        since = dict(zip(before, places[len(offsets) :], strict=True))
        due: list[Checkpoint] = []
        known = not offsets
        for number, (each, place) in enumerate(zip(offsets, places, strict=False)):
            if place is None:
                corrected = self._corrected(last[number], since.get(number))
                if corrected is not None:
                    due.append(corrected)
                continue
            known = True
            topic, partition = self._target_of(each)
            checkpoint = Checkpoint(
                each.group, topic, partition, each.offset, place.offset, each.metadata
            )
            void = self._void(last[number], since.get(number))
            if self.book.emit(checkpoint, place, void):
                due.append(checkpoint)
        return Emission(due, read_at_ms, known, unread)

    def _void(self, last: Checkpoint | None, now: Place | None) -> int | None:
        """Return the target offset of the last checkpoint if it is no longer valid. `now`: the
        current translation of its source offset."""
        if last is None or now is None or not self.book.is_void(last, now):
            return None
        return last.downstream_offset

    def _corrected(self, last: Checkpoint | None, now: Place | None) -> Checkpoint | None:
        """Return the last checkpoint of a group that moved back to an offset without a known
        translation. If the checkpoint's own translation is no longer valid, it is replaced by the
        current one."""
        if last is None or now is None or not self.book.is_void(last, now):
            return None
        checkpoint = replace(last, downstream_offset=now.offset)
        return checkpoint if self.book.emit(checkpoint, now) else None

    def _target_of(self, offset: GroupOffset) -> TopicPartition:
        name = target_topic(self.policy, self.source_alias, self.target_alias, offset.topic)
        return name, offset.partition

    def _read(
        self, source: SourceGroups, deadline: Deadline
    ) -> tuple[dict[str, Mapping[tuple[str, int], Committed]], str | None]:
        """Return the committed offsets of groups, and error messages of groups that could not be
        read."""
        found: dict[str, Mapping[tuple[str, int], Committed]] = {}
        failed: list[ConnectError] = []
        for group, offsets in source.committed(self.groups, deadline).items():
            if isinstance(offsets, ConnectError):
                failed.append(offsets)
            else:
                found[group] = offsets
        if failed and not found:
            raise failed[0]
        if not failed:
            return found, None
        unread = f"cannot read the offsets of {len(failed)} groups: {failed[0]}"
        _LOG.warning("%s->%s: %s", self.source_alias, self.target_alias, unread)
        return found, unread
