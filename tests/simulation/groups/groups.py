"""Consumer groups of both clusters, and the checkpoint task that moves their offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect.clients.groups.consumer_groups import Committed, GroupListing
from connect.clock import Deadline
from connect.errors import ConnectError, RetriableError
from connect.protocol.messages import TopicPartition
from connectors.mirror.checkpoints.group_offset_sync import GroupSyncOutcome, sync_group_offsets
from connectors.mirror.checkpoints.round import CheckpointRounds
from connectors.mirror.checkpoints.store import CheckpointBook
from connectors.mirror.filters import DefaultTopicFilter
from connectors.mirror.formats import Checkpoint
from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset, InProcessTranslator, TranslationTopics
from connectors.mirror.replication_policy import DefaultReplicationPolicy
from tests.simulation.groups.copier import TOPIC
from tests.simulation.groups.logs import Told
from tests.simulation.groups.topics import MAP, SYNCS, Topics
from tests.support.fake_clock import FakeClock

__all__ = ["GROUPS", "CheckpointTask", "SourceSide", "TargetSide"]

GROUPS = ("g0", "g1", "g2")
_COPY = f"A.{TOPIC}"
_SOON = Deadline(60.0)


class SourceSide:
    """What groups committed on the source. `ConsumerGroups` of the source's."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[TopicPartition, Committed]] = {g: {} for g in GROUPS}

    def committed(
        self, groups: Iterable[str], deadline: Deadline
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | ConnectError]:
        return {group: dict(self.offsets[group]) for group in groups}


@dataclass
class Held:
    """What a group has on the target. `upstream`: of the checkpoint it was written by; None: the
    group committed it itself, or went back on the source since. `told`: what the map told of then.
    `starts`: of the checkpoint task, when it was written; `emitted`: when the checkpoint was."""

    offset: int
    upstream: int | None
    life: int
    told: Told | None
    starts: int = 0
    emitted: int = 0


@dataclass
class TargetSide:
    """The groups of the target. `ConsumerGroups` of the target's."""

    held: dict[tuple[str, int], Held] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    exist: set[str] = field(default_factory=set)
    written: list[tuple[str, int, int]] = field(default_factory=list)
    """(group, partition, offset) of the last round's commits."""

    def list_groups(
        self, deadline: Deadline, states_of: Collection[str] = ()
    ) -> Mapping[str, GroupListing]:
        return {
            group: GroupListing(group, "STABLE" if group in self.active else "EMPTY")
            for group in self.exist
        }

    def committed(
        self, groups: Iterable[str], deadline: Deadline
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | ConnectError]:
        wanted = list(groups)
        return {
            group: {
                (_COPY, number): Committed(held.offset)
                for (of, number), held in self.held.items()
                if of == group
            }
            for group in wanted
        }

    def commit(
        self, offsets: Mapping[str, Mapping[TopicPartition, Committed]], deadline: Deadline
    ) -> Mapping[str, ConnectError]:
        refused: dict[str, ConnectError] = {}
        for group, of_group in offsets.items():
            if group in self.active:
                refused[group] = RetriableError("it has members")
                continue
            self.exist.add(group)
            for (_, number), each in of_group.items():
                assert each.offset is not None
                self.written.append((group, number, each.offset))
        return refused


class CheckpointTask:
    """The real book, rounds, translator and group sync over the simulated topics."""

    def __init__(self, topics: Topics, clock: FakeClock) -> None:
        self._topics = topics
        self.book = CheckpointBook()
        self.rounds = CheckpointRounds(
            "A",
            "B",
            GROUPS,
            DefaultReplicationPolicy({}),
            DefaultTopicFilter({"topics": TOPIC}),
            self.book,
            clock,
        )
        for _, (key, value) in sorted(topics.checkpoints.records.items()):
            if value is not None:
                self.book.load(Checkpoint.decode(key, value))
        self._translator = InProcessTranslator(
            TranslationTopics({}, SYNCS, MAP), open_logs=lambda _: topics
        )
        self._translator.open(_SOON)
        self.asked: list[tuple[GroupOffset, Place | None]] = []
        """The offsets of the last round, and their places."""

    def translate(
        self, offsets: Sequence[GroupOffset], deadline: Deadline
    ) -> Sequence[Place | None]:
        """As `Translator`; notes what it answers."""
        try:
            places = self._translator.translate(offsets, deadline)
        except RetriableError:
            # A page was deleted: with the next round its head has to do.
            places = self._translator.translate(offsets, deadline)
        self.asked = list(zip(offsets, places, strict=True))
        return places

    def close(self, deadline: Deadline) -> None:
        pass

    def round(self, source: SourceSide) -> list[Checkpoint]:
        """A round of checkpoints, which are in their topic then."""
        emission = self.rounds.run(source, self, _SOON)
        for each in emission.checkpoints:
            self._topics.checkpoints.append(each.key(), each.value())
        return emission.checkpoints

    def sync(self, target: TargetSide) -> GroupSyncOutcome:
        """A round of group offset sync."""
        target.written = []
        void = self.book.void()
        outcome = sync_group_offsets(target, self.book.groups(), _SOON, void=void)
        self.book.settle(outcome.settled)
        return outcome
