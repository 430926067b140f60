"""A round of checkpoints, by a translator that knows what the test says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from connect.clients.groups.consumer_groups import Committed
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.checkpoints.round import CheckpointRounds
from connectors.mirror.checkpoints.store import CheckpointBook
from connectors.mirror.filters import DefaultTopicFilter
from connectors.mirror.formats import Checkpoint
from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset
from connectors.mirror.replication_policy import DefaultReplicationPolicy
from tests.support.fake_clock import FakeClock


class Groups:
    def __init__(self, offset: int) -> None:
        self.offset = offset

    def committed(
        self, groups: Iterable[str], deadline: Deadline
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | ConnectError]:
        return {group: {("t", 0): Committed(self.offset)} for group in groups}


class Known:
    def __init__(self, places: Mapping[int, Place]) -> None:
        self.places = places

    def translate(
        self, offsets: Sequence[GroupOffset], deadline: Deadline
    ) -> Sequence[Place | None]:
        return [self.places.get(each.offset) for each in offsets]

    def close(self, deadline: Deadline) -> None:
        pass


def test_a_group_that_moved_back_to_where_nothing_is_known_gets_its_checkpoint_corrected() -> None:
    """Group sync would commit the former one, which is beyond the end of the target."""
    book = CheckpointBook()
    book.load(Checkpoint("g", "A.t", 0, 45, 47))
    rounds = CheckpointRounds(
        "A",
        "B",
        ["g"],
        DefaultReplicationPolicy({}),
        DefaultTopicFilter({"topics": "t"}),
        book,
        FakeClock(),
    )
    soon = Deadline(1.0, FakeClock())
    lost = Known({45: Place(36, True, loss=5)})
    emission = rounds.run(Groups(9), lost, soon)
    assert emission.checkpoints == [Checkpoint("g", "A.t", 0, 45, 36)]
    assert book.void() == {"g": {("A.t", 0): 47}}
    assert rounds.run(Groups(9), lost, soon).checkpoints == []
