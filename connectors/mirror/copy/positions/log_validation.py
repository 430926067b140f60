"""Validates that both logs of a partition are still the copied ones.

A log is validated when it may have changed: at the start, after a leader change, when a topic has
another ID, and when the target appends a batch before the end that it had acknowledged. Meanwhile
the partition is not fetched (`checking`). `OffsetReset` handles the losses found. Runs on the copy
engine's thread. One request covers all partitions that wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from connect.clients.cluster.cluster_access import ClusterAccess
from connect.clients.cluster.list_offsets import LATEST, OffsetResult
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import LossKind
from connectors.mirror.copy.context import CopyContext, EarlyAppendExplained
from connectors.mirror.copy.partition.partition import UNKNOWN, PartitionCopy
from connectors.mirror.copy.positions.offset_reset import OffsetReset
from connectors.mirror.copy.positions.tail_checks import TailChecks

__all__ = ["LogValidation"]

_LOG = logging.getLogger(__name__)

_RETRY_S = 1.0
_ASK_TIMEOUT_S = 5.0

_REFUSED_S = 10.0
"""Brokers learn of a new topic within seconds."""

_FRESH = 2
"""The next metadata response may have been requested before the event. The one after it was
requested later."""

Answers = Mapping[TopicPartition, OffsetResult]


@dataclass(frozen=True, slots=True)
class _Check:
    """One request about one partition: where `epoch` ends in the source's log, to compare with
    `position`; or, with epoch None, whether the target's log reaches `position`."""

    partition: PartitionCopy
    position: int
    epoch: int | None
    out_of_range: bool = False


@dataclass(frozen=True, slots=True)
class _Shorter:
    """The source's log does not reach the position. `version`: of the metadata at that time.
    `then`: called if the topic ID is the same."""

    version: int
    then: Callable[[], None]


@dataclass(slots=True)
class _Side:
    """The requests to one cluster, by the partition's name there."""

    link: ClusterAccess
    waiting: dict[TopicPartition, _Check] = field(default_factory=dict)
    asked: bool = False


class LogValidation:
    """Validates the logs of partitions."""

    def __init__(
        self, context: CopyContext, starts: OffsetReset, tails: TailChecks | None = None
    ) -> None:
        """`tails`: compares the target's log end with the source after a crash; None: the records
        are copied again."""
        self._context = context
        self._source = _Side(context.source)
        self._target = _Side(context.target)
        self._loop = context.loop
        self._starts = starts
        self._shorter: dict[PartitionCopy, _Shorter] = {}
        self._tails = tails

    # Events that require validation.

    def follow(self, partition: PartitionCopy) -> None:
        """Compare topic ids and leader epochs of new metadata."""
        if partition.learning:
            # A broker with old metadata would name a deleted topic, whose id the facts know.
            return
        if partition.landed_early is not None:
            self._explain_early(partition)
            return
        if partition in self._shorter:
            self._explain_shorter(partition)
            return
        source = self._source.link.snapshot
        source_id = source.topic_ids.get(partition.source[0])
        if partition.source_watched and self._is_new(partition, source_id):
            if self._another_source(partition, source_id):
                return
            epoch = source.leaders.get(partition.source, (UNKNOWN, UNKNOWN))[1]
            went_back = source_id is None and UNKNOWN < epoch < partition.source_checked
            if epoch > partition.source_checked or went_back:
                partition.source_checked = epoch
                self._look_at_source(partition)
        target = self._target.link.snapshot
        target_id = target.topic_ids.get(partition.target[0])
        if not partition.target_watched or target_id in partition.former_target_ids:
            return
        if self._another_target(partition, target_id):
            return
        epoch = target.leaders.get(partition.target, (UNKNOWN, UNKNOWN))[1]
        if epoch > partition.target_checked:
            partition.target_checked = epoch
            if partition.target_end != UNKNOWN:
                self._ask_soon(
                    self._target,
                    partition.target,
                    _Check(partition, partition.target_end, None),
                )

    def _is_new(self, partition: PartitionCopy, topic_id: UUID | None) -> bool:
        """Whether metadata with this ID of the source's topic concerns the present log. A broker
        with old metadata may return a deleted topic's ID, also one that was never copied.

        Which topic is there, its leader knows best. Where it is asked for the known ID, another one
        counts only once it refuses that; and one that was taken for a deleted topic's, once it
        refuses for long."""
        known = partition.source_topic_id
        if known is None or topic_id in (None, known):
            return topic_id not in partition.former_source_ids
        former = topic_id in partition.former_source_ids
        if partition.asked_by_name or self._context.source_by_id is False:
            return not former
        refused_s = self._loop.now() - partition.source_refused_at
        return refused_s >= (_REFUSED_S if former else 0.0)

    def _another_source(self, partition: PartitionCopy, topic_id: UUID | None) -> bool:
        """Handle a source topic that was deleted and re-created. It has another ID, and all its
        records are new, even if its offsets reach beyond the copied ones."""
        if topic_id is None or topic_id == partition.source_topic_id:
            return False
        if partition.source_topic_id is None:
            partition.source_topic_id = topic_id
            return False
        partition.next_source_id = topic_id
        partition.source_checked = UNKNOWN
        self._starts.created_again(partition)
        return True

    def _another_target(self, partition: PartitionCopy, topic_id: UUID | None) -> bool:
        if topic_id is None or topic_id == partition.target_topic_id:
            return False
        if partition.target_topic_id is None:
            partition.target_topic_id = topic_id
            return False
        partition.next_target_id = topic_id
        partition.target_checked = UNKNOWN
        end = max(0, partition.target_end)
        self._starts.target_lost(partition, LossKind.TARGET_RECREATED, 0, end, None)
        return True

    def _explain_early(self, partition: PartitionCopy) -> None:
        """Report the cause of an early append, if the target's metadata is fresh enough."""
        base, snapshot = partition.landed_early, self._target.link.snapshot
        if base is None:
            return
        if not partition.target_watched:
            partition.landed_early = None
            self._context.post(EarlyAppendExplained(partition))
            return
        if snapshot.version < partition.landed_version + _FRESH:
            self._target.link.request_refresh((partition.target[0],))
            return
        topic_id = snapshot.topic_ids.get(partition.target[0])
        unknown = topic_id is None or topic_id in partition.former_target_ids
        if unknown and partition.target_topic_id is not None:
            partition.landed_version = snapshot.version
            self._target.link.request_refresh((partition.target[0],))
            return
        partition.landed_early = None
        recreated = self._another_target(partition, topic_id)
        if not recreated and base < partition.target_end:
            self._target_ends(partition, base, partition.target_end)
        self._context.post(EarlyAppendExplained(partition))

    def out_of_range(self, partition: PartitionCopy) -> None:
        """Handle OFFSET_OUT_OF_RANGE, which the source returned for the position."""
        if not self._look_at_source(partition, out_of_range=True):
            self._with_fresh_id(partition, lambda: self._starts.locate(partition))

    def _with_fresh_id(self, partition: PartitionCopy, then: Callable[[], None]) -> None:
        """Handle a source log that differs from the copied one. If its topic ID changed, report
        that; otherwise call `then`. Metadata older than the response cannot decide."""
        link = self._source.link
        partition.checking = True
        self._shorter[partition] = _Shorter(link.snapshot.version, then)
        link.request_refresh((partition.source[0],))

    def _explain_shorter(self, partition: PartitionCopy) -> None:
        """Report why the source's log is shorter, if the source's metadata is fresh enough."""
        found, snapshot = self._shorter[partition], self._source.link.snapshot
        if partition.source_watched:
            if snapshot.version < found.version + _FRESH:
                self._source.link.request_refresh((partition.source[0],))
                return
            topic_id = snapshot.topic_ids.get(partition.source[0])
            unknown = topic_id is None or topic_id in partition.former_source_ids
            if unknown and partition.source_topic_id:
                self._shorter[partition] = _Shorter(snapshot.version, found.then)
                self._source.link.request_refresh((partition.source[0],))
                return
        del self._shorter[partition]
        partition.checking = self._asked_about(partition)
        if not partition.source_watched:
            return
        if not self._another_source(partition, snapshot.topic_ids.get(partition.source[0])):
            found.then()

    def _look_at_source(self, partition: PartitionCopy, *, out_of_range: bool = False) -> bool:
        position = partition.position
        epoch = partition.epochs.before(position)
        if epoch is None or position <= 0:
            return False
        check = _Check(partition, position, epoch, out_of_range)
        self._ask_soon(self._source, partition.source, check)
        return True

    # Requests and responses.

    def _ask_soon(self, side: _Side, key: TopicPartition, check: _Check) -> None:
        check.partition.checking = True
        if check.epoch is None:
            check.partition.target_checking = True
        side.waiting[key] = check
        self._loop.post(lambda: self._ask(side))

    def _ask(self, side: _Side) -> None:
        if side.asked:
            return
        for key in [key for key, check in side.waiting.items() if check.partition.leaving]:
            left = side.waiting.pop(key).partition
            left.checking = left.target_checking = False
        asked = dict(side.waiting)
        if not asked:
            return
        side.asked = True
        epochs = {key: check.epoch for key, check in asked.items() if check.epoch is not None}
        if side is self._source:
            future = side.link.epoch_ends(epochs, _ASK_TIMEOUT_S)
        else:
            future = side.link.list_offsets(asked, LATEST, 0, _ASK_TIMEOUT_S)
        self._context.when_answered(
            future,
            partial(self._answered, side, asked),
            lambda error: self._answered(side, asked, dict.fromkeys(asked, error)),
        )

    def _answered(
        self, side: _Side, asked: Mapping[TopicPartition, _Check], answers: Answers
    ) -> None:
        side.asked = False
        failed = False
        for key, check in asked.items():
            if side.waiting.get(key) is not check:
                continue  # The next round requests it again.
            answer = answers.get(key)
            if isinstance(answer, ConnectError) and answer.retriable:
                failed = True
                continue
            del side.waiting[key]
            if check.epoch is None:
                check.partition.target_checking = False
            check.partition.checking = self._asked_about(check.partition)
            if answer is None or isinstance(answer, ConnectError):
                # The cluster is too old to support the request, so only fetching can show a change.
                _LOG.info("%s-%d: cannot validate its log: %s", *key, answer)
                answer = UNKNOWN
            self._judge(side, check, answer)
        if failed:
            self._loop.after(_RETRY_S, lambda: self._ask(side))
        else:
            self._ask(side)  # These requests were made meanwhile.

    def _asked_about(self, partition: PartitionCopy) -> bool:
        """Whether a request about the partition is in flight."""
        checks = (
            self._source.waiting.get(partition.source),
            self._target.waiting.get(partition.target),
        )
        return partition in self._shorter or any(
            check is not None and check.partition is partition for check in checks
        )

    def _judge(self, side: _Side, check: _Check, end: int) -> None:
        """Judge a response. `end`: where the epoch, or the target's log, ends; UNKNOWN: not
        known."""
        partition = check.partition
        if side is self._target:
            if not partition.target_watched:
                return
            if UNKNOWN < end < check.position == partition.target_end:
                self._target_ends(partition, end, check.position)
            elif partition.searching or self._tails is None or not self._tails.look(partition, end):
                self._context.mark(partition)
            return
        if not partition.source_watched:
            return
        if partition.position != check.position:
            # Records arrived meanwhile, maybe of a later epoch.
            if not self._look_at_source(partition):
                self._context.mark(partition)
        elif self._replaced(partition, shorter=False):
            self._with_fresh_id(partition, lambda: self._starts.created_again(partition))
        elif UNKNOWN < end < check.position:
            self._with_fresh_id(partition, lambda: self._source_ends(partition, end))
        elif check.out_of_range:
            self._with_fresh_id(partition, lambda: self._starts.locate(partition))
        else:
            self._context.mark(partition)

    def _source_ends(self, partition: PartitionCopy, end: int) -> None:
        """Handle a source log that ends at `end`, before the copied records do."""
        if self._replaced(partition, shorter=True):
            self._starts.created_again(partition)
        else:
            self._starts.truncated(partition, end)

    def _replaced(self, partition: PartitionCopy, *, shorter: bool) -> bool:
        """Whether leader epochs show that the source's topic was deleted and created again, where
        brokers before Kafka 2.8 name no topic ID. The epochs of a topic only grow, and a log is cut
        off only in a new one. Those of a new topic begin at 0."""
        snapshot = self._source.link.snapshot
        if partition.source_topic_id or partition.source[0] in snapshot.topic_ids:
            return False
        epoch = snapshot.leaders.get(partition.source, (UNKNOWN, UNKNOWN))[1]
        copied = partition.epochs.before(partition.position)
        if copied is None or epoch == UNKNOWN:
            return False
        return epoch < copied or (shorter and epoch == copied)

    def _target_ends(self, partition: PartitionCopy, end: int, before: int) -> None:
        """Handle a target log that ends at `end` but reached `before` earlier."""
        anchor = partition.anchored(end)
        again = None if anchor is None else anchor[0]
        self._starts.target_lost(partition, LossKind.TARGET_LOSS, end, before, again)
