"""One round of a checkpoint task: read what groups committed, translate it, say what is due.

Without threads or timers of its own; the task's loop calls it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from connect.clients.consumer_groups import Committed, ConsumerGroups
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connectors.mirror.checkpoint_store import CheckpointBook
from connectors.mirror.filters import TopicFilter
from connectors.mirror.formats import Checkpoint
from connectors.mirror.policy import ReplicationPolicy
from connectors.mirror.translator import GroupOffset, Translator

__all__ = ["CheckpointRounds", "Emission", "group_offsets", "target_topic"]

_LOG = logging.getLogger(__name__)


class Emission(NamedTuple):
    """Checkpoints to write, and when their groups' offsets were read (ms since the epoch).
    `known`: there was a place for one of them at least, or nothing to look for. `unread`: of which
    groups the offsets could not be read, and why."""

    checkpoints: list[Checkpoint]
    read_at_ms: int
    known: bool
    unread: str | None = None


def group_offsets(
    committed: Mapping[str, Mapping[tuple[str, int], Committed]], topics: TopicFilter
) -> list[GroupOffset]:
    """What there is to translate: of mirrored topics, and not forgotten by the broker."""
    return [
        GroupOffset(group, topic, partition, each.offset, each.metadata)
        for group, offsets in committed.items()
        for (topic, partition), each in offsets.items()
        if each.offset is not None and topics.should_replicate_topic(topic)
    ]


def target_topic(
    policy: ReplicationPolicy, source_alias: str, target_alias: str, topic: str
) -> str:
    """The target's name of a topic that a group of the source reads. A topic that came from the
    target has its own name there."""
    if policy.topic_source(topic) == target_alias:
        return policy.original_topic(topic)
    return policy.format_remote_topic(source_alias, topic)


@dataclass(frozen=True, slots=True)
class CheckpointRounds:
    """What does not change from round to round."""

    source_alias: str
    target_alias: str
    groups: Sequence[str]
    policy: ReplicationPolicy
    topics: TopicFilter
    book: CheckpointBook
    clock: Clock = SYSTEM_CLOCK

    def run(self, source: ConsumerGroups, translator: Translator, deadline: Deadline) -> Emission:
        """A round. A group whose offsets cannot be read holds up no other, unless none can be.
        Raises `ConnectError`."""
        read_at_ms = self.clock.now_ms()
        committed, unread = self._read(source, deadline)
        offsets = group_offsets(committed, self.topics)
        due: list[Checkpoint] = []
        known = not offsets
        for each, place in zip(offsets, translator.translate(offsets, deadline), strict=True):
            if place is None:
                continue
            known = True
            checkpoint = Checkpoint(
                each.group,
                target_topic(self.policy, self.source_alias, self.target_alias, each.topic),
                each.partition,
                each.offset,
                place.offset,
                each.metadata,
            )
            if self.book.emit(checkpoint, exact=place.exact):
                due.append(checkpoint)
        return Emission(due, read_at_ms, known, unread)

    def _read(
        self, source: ConsumerGroups, deadline: Deadline
    ) -> tuple[dict[str, Mapping[tuple[str, int], Committed]], str | None]:
        """What groups committed, and why some could not be read."""
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
        unread = f"the offsets of {len(failed)} groups could not be read: {failed[0]}"
        _LOG.warning("%s->%s: %s", self.source_alias, self.target_alias, unread)
        return found, unread
