"""What is known of the two logs of a partition: topic IDs, leader epochs, and pairs of offsets.

It shows a loss: that a log was truncated, or that its topic was deleted and re-created. A part of
it is stored with the source offset (`LogIdentity`), for the next start. Belongs to the copy
engine's thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from connectors.mirror.config.losses import Loss, LossKind
from connectors.mirror.copy.batches.outgoing import UNKNOWN
from connectors.mirror.copy.known_logs import KnownLogs
from connectors.mirror.copy.partition.leader_epochs import LeaderEpochCache
from connectors.mirror.copy.partition.stored_partition import StoredPartition
from connectors.mirror.offsets.log_identity import LogIdentity, anchored, joined_by

__all__ = ["TrackedPartition"]

_ANCHORS = 24


@dataclass(slots=True, eq=False)
class TrackedPartition(StoredPartition):
    """A partition with what is known of its source log and its target log, and how far it was
    fetched."""

    incoming: int | None = None
    """The end offset of fetched batches that are not queued yet; None: there are none."""
    moves: int = 0
    """Number of moves to an offset other than the next one."""
    tail_start: tuple[int, int] | None = None
    """The (source offset, target offset) from which on the target may have more than was stored."""
    source_topic_id: UUID | None = None
    next_source_id: UUID | None = None
    """The id of the topic that replaced the source topic, until copying continues there."""
    former_source_ids: tuple[UUID, ...] = ()
    """Ids of deleted topics, newest last. A broker with old metadata may still return one."""
    asked_by_name: bool = False
    """Whether the source's leader was last asked for the topic's name, so that it may have answered
    from another topic than the known one."""
    source_refused_at: float = float("inf")
    """Since when the leader answers that it has no topic with the known ID (monotonic seconds)."""
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    """Leader epochs of the fetched batches."""
    source_checked: int = UNKNOWN
    """The leader epoch in which the source's log was last validated."""

    target_checked: int = UNKNOWN
    target_topic_id: UUID | None = None
    next_target_id: UUID | None = None
    former_target_ids: tuple[UUID, ...] = ()
    target_end: int = UNKNOWN
    """The target offset after the last one acknowledged."""
    anchors: list[tuple[int, int]] = field(default_factory=list)
    """(source offset, target offset) pairs of earlier positions on both sides, ascending."""

    @property
    def position(self) -> int:
        """Return the next source offset to fetch; UNKNOWN until a start position is set."""
        return self.resume if self.incoming is None else self.incoming

    def drop_anchor(self) -> None:
        """Record the current position on both sides. Older pairs are thinned out."""
        if self.target_end == UNKNOWN:
            return
        here = (self.acked_position, self.target_end)
        if self.anchors and self.anchors[-1][1] >= here[1]:
            return
        self.anchors.append(here)
        if len(self.anchors) > _ANCHORS:
            old = len(self.anchors) - _ANCHORS // 3
            self.anchors[:old] = self.anchors[:old:2]

    def forget_lost(self, loss: Loss) -> None:
        """Note that the loss is reported and copying continues at `loss.resume`, so that it is not
        found again. The next commit stores that, even if the position is the stored one.
        """
        self.stored_facts.store()
        if loss.on_target:
            # The log may have lost its producer state too.
            self.pipelined_until = 0.0
            self.target_end = loss.first
            self.anchors = [anchor for anchor in self.anchors if anchor[1] <= loss.first]
            if loss.kind is LossKind.TARGET_RECREATED:
                former = joined_by(self.former_target_ids, self.target_topic_id)
                self.former_target_ids = former
                self.target_topic_id, self.next_target_id = self.next_target_id, None
                self.anchors.clear()
            return
        resume = 0 if loss.resume is None else loss.resume
        self.epochs.cut(resume)
        self.anchors = [anchor for anchor in self.anchors if anchor[0] <= resume]
        if loss.kind is LossKind.SOURCE_RECREATED:
            others = tuple(each for each in self.former_source_ids if each != self.next_source_id)
            self.former_source_ids = joined_by(others, self.source_topic_id)
            self.source_topic_id, self.next_source_id = self.next_source_id, None
            self.source_refused_at = float("inf")
            self.epochs = LeaderEpochCache()
            self.anchors.clear()

    def answered_by_source(self, *, by_id: bool) -> None:
        """Note that the source's leader has answered a fetch."""
        self.asked_by_name = not by_id
        self.source_refused_at = float("inf")

    def refused_by_id(self, now: float) -> None:
        """Note that the source's leader has no topic with the known ID."""
        self.source_refused_at = min(now, self.source_refused_at)

    def anchored(self, target_offset: int) -> tuple[int, int] | None:
        """Return the last known (source offset, target offset) pair up to `target_offset`."""
        return anchored(self.anchors, target_offset)

    def facts(self, position: int) -> LogIdentity:
        """Return the facts that the next start at this position needs to detect losses in
        between."""
        return LogIdentity(
            max(0, self.stored_position),
            position,
            self.target_end,
            self.source_topic_id,
            self.target_topic_id,
            self.epochs.starts,
            tuple(self.anchors),
            self.former_source_ids,
            self.former_target_ids,
        )

    def know(self, known: KnownLogs) -> None:
        """Set what an earlier job knew of the logs. Call it before anything is fetched."""
        facts = known.facts
        self.source_topic_id, self.target_topic_id = facts.source_topic_id, facts.target_topic_id
        self.former_source_ids = facts.former_source_ids
        self.former_target_ids = facts.former_target_ids
        self.epochs = LeaderEpochCache(facts.epochs)
        self.target_end, self.anchors = facts.target_end, list(facts.anchors)
        self.source_checked, self.target_checked = known.source_checked, known.target_checked

    def known(self, position: int) -> KnownLogs:
        """Return what the next job that starts at this position has to know of the logs."""
        return KnownLogs(self.facts(position), self.source_checked, self.target_checked)

    def learn(self, facts: LogIdentity) -> None:
        """Set the facts that were stored with this position. It may be called late, because newer
        facts are kept. The stored facts are ignored after a move."""
        if self.moves > 1:
            return
        if facts.source_topic_id not in (None, self.source_topic_id):
            self.source_topic_id = facts.source_topic_id
            self.source_refused_at = float("inf")
        self.target_topic_id = facts.target_topic_id or self.target_topic_id
        self.former_source_ids = facts.former_source_ids or self.former_source_ids
        self.former_target_ids = facts.former_target_ids or self.former_target_ids
        self.epochs.precede(facts.epochs)
        if self.target_end == UNKNOWN:
            self.target_end = facts.target_end
            # A commit may have failed: what was copied beyond the stored position is copied again.
            self.anchors = [each for each in facts.anchors if each[0] <= self.position]
            if not self.queue and not self.in_flight:
                self.tail_start = facts.reached(self.position)
        self.source_checked = self.target_checked = UNKNOWN
