"""What calls for a look at a partition's logs is looked at, whatever else is being asked then."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from connect.clients.cluster.list_offsets import LATEST
from connect.errors import BrokerUnavailable
from connectors.mirror.config.losses import Loss, LossKind, LossPolicies, LossPolicy
from connectors.mirror.copy.context import EarlyAppendExplained
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.positions.log_validation import LogValidation
from connectors.mirror.copy.positions.offset_reset import OffsetReset
from connectors.mirror.offsets.log_identity import LogIdentity
from tests.unit.connectors.mirror.copy.asked_cluster import SteppedLoop
from tests.unit.connectors.mirror.copy.contexts import posted


class Checking(SteppedLoop):
    def __init__(self) -> None:
        self.policies: dict[LossKind, LossPolicy] = {}
        super().__init__(losses=LossPolicies(kinds=self.policies))
        self.starts = OffsetReset(self.context)
        self.checks = LogValidation(self.context, self.starts)

    @property
    def checked(self) -> list[TargetPartition]:
        """Those that may be fetched again."""
        return list(self.context.changed)

    @property
    def explained(self) -> list[PartitionCopy]:
        return [event.partition for event in posted(self.context, EarlyAppendExplained)]

    def lands_early(self, partition: PartitionCopy, offset: int) -> None:
        """The target appended the oldest batch in flight before the known log end."""
        partition.appended_early(offset, self.target.snapshot.version)

    def copied_before(self, number: int, end: int) -> PartitionCopy:
        """A partition that earlier runs copied up to this offset, as a start finds it."""
        made = self.partition(number, end)
        made.started()
        made.target_end = end
        self.target.leads(made.target)
        return made


@pytest.fixture
def checking() -> Iterator[Checking]:
    made = Checking()
    yield made
    made.loop.close()


def test_a_partition_is_neither_fetched_nor_sent_until_the_target_answered(
    checking: Checking,
) -> None:
    partition = checking.copied_before(0, end=100)
    checking.checks.follow(partition)
    checking.turn()
    assert checking.target.asked == [({partition.target}, LATEST)]
    assert (partition.held_back, partition.target_checking) == (True, True)
    checking.target.answers[0].set_result({partition.target: 100})
    checking.turn()
    assert (partition.held_back, partition.target_checking) == (False, False)
    assert checking.checked == [partition]


def test_what_comes_while_others_are_asked_about_is_asked_next(checking: Checking) -> None:
    first, second = (checking.copied_before(number, end=100) for number in range(2))
    checking.checks.follow(first)
    checking.turn()
    checking.checks.follow(second)
    checking.turn()
    assert checking.target.asked == [({first.target}, LATEST)]
    checking.target.answers[0].set_result({first.target: 100})
    checking.turn()
    assert checking.target.asked[1:] == [({second.target}, LATEST)]
    checking.target.answers[1].set_result({second.target: 100})
    checking.turn()
    assert checking.checked == [first, second]
    assert not second.held_back


def test_a_question_that_failed_is_asked_again_together_with_what_came(
    checking: Checking,
) -> None:
    first, second = (checking.copied_before(number, end=100) for number in range(2))
    checking.checks.follow(first)
    checking.turn()
    checking.checks.follow(second)
    checking.target.answers[0].set_exception(BrokerUnavailable("gone"))
    checking.turn()
    assert checking.target.asked == [({first.target}, LATEST)]
    checking.turn(1.0)
    assert checking.target.asked[1:] == [({first.target, second.target}, LATEST)]
    assert first.held_back


def test_an_id_of_a_deleted_topic_that_an_old_broker_names_is_not_another_creation(
    checking: Checking,
) -> None:
    """Finding 12: the whole topic would be copied twice more."""
    old, new = UUID(int=1), UUID(int=2)
    checking.context.source_by_id = False
    partition = checking.copied_before(0, end=100)
    partition.source_topic_id = old
    checking.source.names(partition.source[0], new)
    checking.source.leads(partition.source)
    checking.checks.follow(partition)
    checking.turn(1.0)
    checking.source.answers[-1].set_result({partition.source: 0})
    checking.turn()
    assert (partition.source_topic_id, partition.position) == (new, 0)
    asked = len(checking.source.asked)
    checking.source.names(partition.source[0], old)
    checking.checks.follow(partition)
    checking.turn(1.0)
    assert (partition.source_topic_id, partition.searching) == (new, False)
    assert len(checking.source.asked) == asked


@pytest.mark.parametrize("by_id", [None, True])
def test_while_the_leader_answers_for_the_known_id_another_one_is_not_believed(
    checking: Checking, by_id: bool | None
) -> None:
    """A broker with old metadata may name a topic that was there for a moment only, and of which
    the mirror has never heard (seed 2507 of the copier's world)."""
    known, other = UUID(int=1), UUID(int=2)
    checking.context.source_by_id = by_id
    partition = checking.copied_before(0, end=100)
    partition.source_topic_id = known
    checking.source.names(partition.source[0], other)
    checking.source.leads(partition.source)
    checking.checks.follow(partition)
    checking.turn(1.0)
    assert (partition.source_topic_id, partition.searching) == (known, False)
    partition.refused_by_id(checking.loop.now())
    checking.checks.follow(partition)
    assert (partition.next_source_id, partition.searching) == (other, True)


def test_an_id_that_was_taken_for_a_deleted_topics_counts_once_the_known_one_is_refused_for_long(
    checking: Checking,
) -> None:
    """Without that the partition would be refused for ever."""
    known, present = UUID(int=1), UUID(int=2)
    checking.context.source_by_id = True
    partition = checking.copied_before(0, end=100)
    partition.source_topic_id, partition.former_source_ids = known, (present,)
    checking.source.names(partition.source[0], present)
    checking.source.leads(partition.source)
    partition.refused_by_id(checking.loop.now())
    for seconds, believed in ((5.0, False), (6.0, True)):
        checking.clock.advance(seconds)
        checking.checks.follow(partition)
        assert partition.searching is believed
    checking.turn(1.0)
    checking.source.answers[-1].set_result({partition.source: 0})
    checking.turn()
    assert (partition.source_topic_id, partition.former_source_ids) == (present, (known,))


def test_a_restart_knows_the_ids_of_deleted_topics(
    checking: Checking, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker with old metadata would make both topics look created again, and all be copied once
    more."""
    old, new = UUID(int=1), UUID(int=2)
    before = checking.copied_before(0, end=100)
    before.source_topic_id = before.target_topic_id = old
    before.next_source_id = before.next_target_id = new
    for kind in (LossKind.SOURCE_RECREATED, LossKind.TARGET_RECREATED):
        before.forget_lost(
            Loss(kind, LossPolicy.REPORT, before.source, before.target, 0, 100, 100, 100)
        )
    partition = checking.partition(1, 100)
    partition.started()
    partition.learn(LogIdentity.decode(before.facts(100).encode()))
    for cluster, topic in ((checking.source, "topic"), (checking.target, "copy")):
        cluster.leads(partition.source, partition.target)
        cluster.names(topic, old)
    checking.checks.follow(partition)
    checking.turn()
    assert caplog.text == ""
    assert (partition.source_topic_id, partition.target_topic_id) == (new, new)
    assert (partition.source_checked, partition.target_checked) == (-1, -1), "of another log"


def test_nothing_is_compared_before_the_stored_facts_are_known(checking: Checking) -> None:
    """Else an id that an old broker names is taken for the topic's, and the true one for that of a
    topic created again."""
    old, new = UUID(int=1), UUID(int=2)
    facts = LogIdentity(0, 100, 100, new, new, (), (), (old,), (old,))
    partition = checking.partition(1, 100)
    partition.started()
    partition.learning = True
    assert partition.held_back
    for topic_id in (old, new):
        for cluster, topic in ((checking.source, "topic"), (checking.target, "copy")):
            cluster.leads(partition.source, partition.target)
            cluster.names(topic, topic_id)
        checking.checks.follow(partition)
    assert (partition.source_topic_id, partition.searching) == (None, False)
    partition.learning = False
    partition.learn(facts)
    checking.checks.follow(partition)
    checking.turn()
    assert (partition.source_topic_id, partition.target_topic_id) == (new, new)
    assert not partition.searching


def test_anchors_of_a_commit_that_failed_do_not_count(checking: Checking) -> None:
    """After a loss of the target, records before them are copied again, not after them."""
    partition = checking.partition(1, 20)
    partition.started()
    partition.learn(LogIdentity(20, 45, 40, None, None, (), ((20, 19), (45, 40))))
    assert partition.anchored(46) == (20, 19)


def test_a_batch_that_lands_early_in_a_new_topic_tells_of_the_new_topic(
    checking: Checking, caplog: pytest.LogCaptureFixture
) -> None:
    partition = checking.copied_before(0, end=100)
    partition.target_topic_id = UUID(int=1)
    checking.lands_early(partition, 0)
    assert partition.send_held, "its cause is not known yet"
    checking.checks.follow(partition)
    assert checking.explained == [], "the metadata is as old as before"
    checking.target.names(partition.target[0], UUID(int=1))
    checking.checks.follow(partition)
    assert checking.explained == [], "this was asked for before the batch landed, perhaps"
    checking.target.names(partition.target[0], UUID(int=2))
    checking.checks.follow(partition)
    assert checking.explained == [partition]
    assert "created again" in caplog.text
    assert not partition.send_held


def test_a_batch_that_lands_early_in_the_same_topic_tells_of_its_loss(
    checking: Checking, caplog: pytest.LogCaptureFixture
) -> None:
    partition = checking.copied_before(0, end=100)
    partition.target_topic_id = UUID(int=1)
    checking.lands_early(partition, 60)
    for _ in range(2):
        checking.target.names(partition.target[0], UUID(int=1))
        checking.checks.follow(partition)
    assert checking.explained == [partition]
    assert "60" in caplog.text
    assert "created again" not in caplog.text


def test_a_partition_that_leaves_does_not_wait_for_the_cause(checking: Checking) -> None:
    partition = checking.copied_before(0, end=100)
    checking.lands_early(partition, 60)
    partition.leaving = True
    checking.checks.follow(partition)
    assert checking.explained == [partition]
    assert partition.landed_early is None


def _both_lose(checking: Checking) -> PartitionCopy:
    """The source's log was cut off at 40 (`searching`), while a batch was in flight."""
    partition = checking.copied_before(0, end=100)
    checking.turn()
    partition.target_topic_id = UUID(int=1)
    checking.starts.truncated(partition, 40)
    assert partition.searching
    return partition


def test_a_loss_of_the_target_is_told_while_one_of_the_source_is_looked_into(
    checking: Checking, caplog: pytest.LogCaptureFixture
) -> None:
    """Its batch in flight lands early; once it is acknowledged, nothing would tell of the loss."""
    partition = _both_lose(checking)
    checking.lands_early(partition, 60)
    assert partition.send_held
    for _ in range(2):
        checking.target.names(partition.target[0], UUID(int=1))
        checking.checks.follow(partition)
    assert checking.explained == [partition]
    assert "the target lost offsets 60 to 99" in caplog.text
    assert partition.searching, "the source's loss is still to be told"


def test_an_answer_about_the_target_counts_while_the_source_is_searched(
    checking: Checking, caplog: pytest.LogCaptureFixture
) -> None:
    partition = checking.copied_before(0, end=100)
    checking.policies[LossKind.TRUNCATION] = LossPolicy.COPY
    checking.checks.follow(partition)
    checking.turn()
    checking.starts.truncated(partition, 40)
    checking.target.answers[0].set_result({partition.target: 60})
    checking.turn()
    assert "the target lost offsets 60 to 99" in caplog.text


def test_a_loss_of_the_source_is_looked_for_again_after_one_of_the_target(
    checking: Checking,
) -> None:
    """Copying again from elsewhere takes the place of what was done about the source's loss."""
    partition = _both_lose(checking)
    checking.policies[LossKind.TARGET_LOSS] = LossPolicy.COPY
    partition.source_checked = 3
    checking.starts.target_lost(partition, LossKind.TARGET_LOSS, 60, 100, 30)
    assert partition.source_checked < 3
