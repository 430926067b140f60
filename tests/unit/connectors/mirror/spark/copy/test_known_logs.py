"""What a shard saw of the logs is handed to the next shard, and stored with the position."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.copy.known_logs import KnownLogs
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.partition import SparkPartition

KEY, TARGET = ("t", 0), ("A.t", 0)
SOURCE_ID, TARGET_ID = uuid4(), uuid4()
EPOCHS = ((0, 0), (3, 60))
ANCHORS = ((40, 30), (80, 70))

offsets = st.integers(0, 2**62)
pairs = st.lists(st.tuples(offsets, offsets), max_size=4).map(tuple)
ids = st.none() | st.uuids()
many_ids = st.lists(st.uuids(), max_size=4).map(tuple)


@given(
    st.builds(
        KnownLogs,
        st.builds(
            LogIdentity,
            offsets,
            offsets,
            st.just(-1) | offsets,
            ids,
            ids,
            pairs,
            pairs,
            many_ids,
            many_ids,
        ),
        st.integers(-1, 2**31 - 1),
        st.integers(-1, 2**31 - 1),
    )
)
def test_it_arrives_as_it_was_sent(known: KnownLogs) -> None:
    assert KnownLogs.of_text(known.to_text()) == known


def facts(
    position: int = 100, source_id: UUID | None = SOURCE_ID, target_id: UUID | None = TARGET_ID
) -> LogIdentity:
    return LogIdentity(50, position, 90, source_id, target_id, EPOCHS, ANCHORS)


class Bench:
    """A partition that was copied up to 50."""

    def __init__(self, *, stores: bool = True) -> None:
        self.board = PartitionBoard(stores=stores)
        self.partition = SparkPartition(KEY, TARGET, PartitionMetrics("A", "B", *TARGET))
        self.partition.position = self.partition.stored = 50
        self.partition.target_end = 50
        self.partition.topic_id, self.partition.target_topic_id = SOURCE_ID, TARGET_ID
        self.board.add(self.partition)
        self.board.assign([KEY])
        self.board.ends({KEY: 200}, 0)

    def told(self) -> KnownLogs:
        """What the next shard is told. It is in flight from then on."""
        for partition in self.board.tails.take(0.0):
            partition.tail_start = None
        shard = self.board.take_shard(1, 0.0)
        assert shard is not None
        return KnownLogs.of_text(shard.ranges[0].known)

    def back(self, known: KnownLogs | None, position: int = 100) -> None:
        text = "" if known is None else known.to_text()
        wanted = SourceRange(KEY, TARGET, self.partition.position, 200)
        self.board.reached(RangeProgress(wanted, position, 0, 0, None, 1, known=text), 1.0, 0)


def test_the_first_shard_validates_what_was_stored() -> None:
    bench = Bench()
    bench.partition.learn(facts(50))
    told = bench.told()
    assert told.facts.epochs == EPOCHS
    assert told.facts.anchors == ((40, 30),), "none beyond its position"
    assert (told.source_checked, told.target_checked) == (-1, -1)


def test_the_next_shard_validates_only_logs_whose_leader_changed() -> None:
    bench = Bench()
    bench.told()
    bench.back(KnownLogs(facts(), 4, 2))
    told = bench.told()
    assert (told.source_checked, told.target_checked) == (4, 2)
    assert (told.facts.epochs, told.facts.anchors) == (EPOCHS, ANCHORS)
    assert bench.partition.facts(100).epochs == EPOCHS, "it is stored with the position"


def test_a_shard_that_tells_nothing_leaves_no_old_epochs() -> None:
    bench = Bench()
    bench.partition.learn(facts(50))
    bench.told()
    bench.back(None)
    assert bench.told().facts.epochs == ()


def test_what_a_shard_saw_of_a_deleted_topic_says_nothing_of_the_next_one() -> None:
    bench = Bench()
    bench.told()
    bench.board.topic_ids({KEY[0]: uuid4()})
    bench.partition.target_topic_id = uuid4()
    bench.back(KnownLogs(facts(), 4, 2))
    bench.board.place(bench.partition, 0)
    assert bench.partition.epochs == bench.partition.anchors == ()
    assert (bench.partition.source_checked, bench.partition.target_checked) == (-1, -1)


def test_a_topic_whose_id_was_not_known_has_the_one_that_the_shard_saw() -> None:
    bench = Bench()
    bench.partition.topic_id = bench.partition.target_topic_id = None
    bench.told()
    bench.back(KnownLogs(facts(), 4, 2))
    learned = bench.partition.facts(100)
    assert (learned.source_topic_id, learned.target_topic_id) == (SOURCE_ID, TARGET_ID)
    assert bench.partition.epochs == EPOCHS


def test_an_id_of_a_deleted_topic_is_not_taken() -> None:
    bench = Bench()
    bench.partition.topic_id, bench.partition.former_ids = None, (SOURCE_ID,)
    bench.told()
    bench.back(KnownLogs(facts(), 4, 2))
    assert bench.partition.topic_id is None
    assert bench.partition.epochs == ()


def test_a_position_from_elsewhere_has_no_epoch() -> None:
    """The last epoch known may have ended before it, and the source's log would look cut off."""
    bench = Bench(stores=False)
    bench.told()
    bench.back(KnownLogs(facts(), 4, 2))
    bench.partition.stored = 100
    bench.told()
    bench.board.doubt(KEY, None, 2.0)
    bench.board.settle({KEY: 150})
    assert (bench.partition.position, bench.partition.epochs) == (150, ())


def test_a_shard_that_failed_leaves_the_position_and_its_epochs() -> None:
    bench = Bench()
    bench.told()
    bench.back(KnownLogs(facts(), 4, 2))
    bench.told()
    bench.board.abandon([KEY], "lost", 2.0, 2.0)
    assert (bench.partition.position, bench.partition.epochs) == (100, EPOCHS)


def test_records_that_a_crash_left_bring_their_epochs() -> None:
    bench = Bench()
    bench.partition.learn(facts(50))
    bench.partition.passed_epochs(((3, 60), (7, 90)))
    assert bench.partition.epochs == (*EPOCHS, (7, 90))


def test_of_a_cut_off_target_the_places_before_it_stay() -> None:
    """The map shows there what the target still has."""
    bench = Bench()
    bench.told()
    bench.back(KnownLogs(facts(), 4, 2))
    bench.told()
    loss = Loss(LossKind.TARGET_LOSS, LossPolicy.REPORT, KEY, TARGET, 60, 90, 100, 100)
    bench.board.lost(loss)
    assert bench.partition.anchored(loss.first) == (40, 30)
    assert bench.partition.target_checked == -1


def test_a_source_topic_created_again_has_no_epochs() -> None:
    bench = Bench()
    bench.told()
    bench.back(KnownLogs(facts(), 4, 2))
    bench.board.topic_ids({KEY[0]: uuid4()})
    bench.board.place(bench.partition, 0)
    assert (bench.partition.epochs, bench.partition.source_checked) == ((), -1)


def test_only_the_newest_are_sent() -> None:
    many = tuple((n, 10 * n) for n in range(12))
    sent = KnownLogs(replace(facts(), epochs=many, anchors=many))
    assert len(KnownLogs.of_text(sent.to_text()).facts.epochs) == 4
