"""A range of a partition is copied from its first offset to its last, and not one record more."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.partition_reader import PartitionReader
from connect.clients.config.settings import FetchSettings, ProduceSettings
from connect.clients.transactions.fence_producers import claim_producers
from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from connectors.mirror.config.losses import LossKind, LossPolicies, LossPolicy
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, parse_topic_rate
from connectors.mirror.copy.batches.choice import CopyOptions
from connectors.mirror.copy.known_logs import KnownLogs
from connectors.mirror.copy.range_copier import (
    CopyStopped,
    RangeCopier,
    RangeProgress,
    RangeReport,
    SourceRange,
    copy_ranges,
)
from connectors.mirror.copy.settings import EngineSettings, TransactionPlan
from connectors.mirror.copy.throttle import TOPIC_LIMIT
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.source_offsets import source_partition
from connectors.mirror.spark.copy.executor_transactions import LaneSettings, LaneTransactions
from deploy.brokers import KafkaCluster
from tests.support.copier.copying import wire
from tests.support.records.losing import create_again, delete_topic
from tests.support.records.producing import numbered, produce, produce_transactions
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import create_topic, end_offset, unique
from tests.support.waiting import wait_until

STALL_S = 20.0
# Of record batches of magic 2 (KIP-98).
_EPOCH, _EPOCH_AT = struct.Struct(">h"), 51


def settings(
    source: KafkaCluster, target: KafkaCluster, *, committed: bool = False
) -> EngineSettings:
    return EngineSettings(
        source=wire(source.bootstrap_servers),
        target=wire(target.bootstrap_servers),
        fetch=FetchSettings(isolation_level=1 if committed else 0),
        produce=ProduceSettings(),
        options=CopyOptions(read_committed=committed),
    )


class Noted(RangeReport):
    """What a copy told, and what stops it."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = threading.Event()


@pytest.mark.parametrize(("start", "end"), [(0, 1000), (17, 503), (250, 251), (5, 5)])
def test_a_range_is_copied_exactly(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, start: int, end: int
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    copy = create_topic(target_cluster.bootstrap_servers)
    produce(source_cluster.bootstrap_servers, topic, numbered(1000))
    noted = Noted()

    copy_ranges(
        settings(source_cluster, target_cluster),
        [SourceRange((topic, 0), (copy, 0), start, end)],
        noted.add,
        stop=noted.stop,
        stall_s=STALL_S,
    )

    wanted = read_partition(source_cluster.bootstrap_servers, topic)[start:end]
    assert contents(read_partition(target_cluster.bootstrap_servers, copy)) == contents(wanted)
    assert [progress.done for progress in noted.progress] == [True]
    assert sum(line.records for line in noted.copied) == end - start
    if end > start:
        assert (noted.copied[0].source_start, noted.copied[0].target_start) == (start, 0)


def test_the_next_range_goes_on_where_the_first_ended(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    """Also in the middle of transactions, with their markers and what was aborted."""
    topic = create_topic(source_cluster.bootstrap_servers)
    copy = create_topic(target_cluster.bootstrap_servers)
    groups = [numbered(40, start=40 * n) for n in range(8)]
    produce_transactions(
        source_cluster.bootstrap_servers,
        topic,
        [(records, n % 3 != 1) for n, records in enumerate(groups)],
    )
    end = end_offset(source_cluster.bootstrap_servers, topic)
    for start, until in ((0, 55), (55, 201), (201, end)):
        noted = Noted()
        copy_ranges(
            settings(source_cluster, target_cluster, committed=True),
            [SourceRange((topic, 0), (copy, 0), start, until)],
            noted.add,
            stop=noted.stop,
            stall_s=STALL_S,
        )
        for line in noted.copied:
            assert start <= line.source_start < line.source_start + line.records <= until
    wanted = read_partition(source_cluster.bootstrap_servers, topic, isolation="read_committed")
    assert contents(read_partition(target_cluster.bootstrap_servers, copy)) == contents(wanted)


def test_limits_count_from_the_first_request_of_each_range_on(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topics, copies = ([create_topic(each) for _ in "ab"] for each in (source, target))
    for topic in topics:
        produce(source, topic, numbered(1000, size=1000), batch_records=20)
    limited = FlowLimits(topics=[parse_topic_rate(f"{topics[0]}=100kB/s")], divided=True)
    copier = RangeCopier(settings(source_cluster, target_cluster))
    starts = [0, 0]
    for limits in (limited, limited, NO_LIMITS):
        noted = Noted()
        ranges = [
            SourceRange((topic, 0), (copy, 0), start, start + 200 if number else 1000)
            for number, (topic, copy, start) in enumerate(zip(topics, copies, starts, strict=True))
        ]
        copier.copy(ranges, noted.add, stop=noted.stop, stall_s=STALL_S, most_s=1.0, limits=limits)
        slow, free = noted.progress
        assert free.done
        assert free.limited_by is None
        if limits is limited:
            assert 0 < slow.bytes < 250_000
            assert slow.limited_by == TOPIC_LIMIT
            assert slow.throttled_ms > 0
        else:
            assert slow.bytes > 250_000
            assert (slow.limited_by, slow.throttled_ms) == (None, 0)
        starts = [slow.position, free.position]
    copier.close()


def test_a_copy_that_follows_goes_on_beyond_its_range_and_ends_when_nothing_comes(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    """The range is what was there when it was planned; records were written since."""
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    noted = Noted()
    copier = RangeCopier(settings(source_cluster, target_cluster))

    def follow(start: int) -> RangeProgress:
        wanted = SourceRange((topic, 0), (copy, 0), start, start + 10)
        copier.copy([wanted], noted.add, stop=noted.stop, stall_s=STALL_S, follow=True)
        (progress,) = noted.progress
        return progress

    produce(source, topic, numbered(15))
    progress = follow(0)
    assert (progress.position, progress.records, progress.done) == (15, 15, True)
    produce(source, topic, numbered(25, start=15))
    assert follow(15).position == 40
    copier.close()
    assert contents(read_partition(target, copy)) == contents(read_partition(source, topic))
    assert sum(line.records for line in noted.copied) == 40


def test_a_copy_that_cannot_move_says_why(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    produce(source_cluster.bootstrap_servers, topic, numbered(3))
    noted = Noted()
    with pytest.raises(DeadlineExceeded, match=r"not-there-0 is not available"):
        copy_ranges(
            settings(source_cluster, target_cluster),
            [SourceRange((topic, 0), ("not-there", 0), 0, 3)],
            noted.add,
            stop=noted.stop,
            stall_s=2.0,
        )
    assert [progress.done for progress in noted.progress] == [False]


def test_a_stopped_copy_tells_what_it_did(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    copy = create_topic(target_cluster.bootstrap_servers)
    produce(source_cluster.bootstrap_servers, topic, numbered(100))
    noted = Noted()
    noted.stop.set()
    with pytest.raises(CopyStopped):
        copy_ranges(
            settings(source_cluster, target_cluster),
            [SourceRange((topic, 0), (copy, 0), 0, 100)],
            noted.add,
            stop=noted.stop,
            stall_s=STALL_S,
        )
    there = len(read_partition(target_cluster.bootstrap_servers, copy))
    assert sum(line.records for line in noted.copied) == there


def producers(cluster: KafkaCluster, topic: str) -> set[tuple[int, ...]]:
    """The producer ids in a partition, each with its epochs."""
    link = ClusterLink(wire(cluster.bootstrap_servers), lambda: None)
    try:
        link.watch_topics({topic})
        end = end_offset(cluster.bootstrap_servers, topic)
        reader = PartitionReader(link, (topic, 0), 0, end)
        try:
            return {
                (header.producer_id, *_EPOCH.unpack_from(fetched.records, header.start + _EPOCH_AT))
                for fetched in reader
                for header in fetched.headers
            }
        finally:
            reader.close()
    finally:
        link.close()


def test_a_copier_that_goes_on_needs_no_new_producer_ids(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    """Brokers remember each for a day. The time that is given may end a copy, and nothing else."""
    topic, other = (create_topic(source_cluster.bootstrap_servers) for _ in range(2))
    copy, another = (create_topic(target_cluster.bootstrap_servers) for _ in range(2))
    for name in (topic, other):
        produce(source_cluster.bootstrap_servers, name, numbered(300))
    copier = RangeCopier(settings(source_cluster, target_cluster))
    noted = Noted()
    try:
        for start in range(0, 300, 50):
            first = SourceRange((topic, 0), (copy, 0), start, start + 50)
            second = SourceRange((other, 0), (another, 0), start, start + 50)
            turns = [[first, second]] if start % 100 else [[first], [second]]
            for ranges in turns:
                copier.copy(ranges, noted.add, stop=noted.stop, stall_s=STALL_S)
                assert all(progress.done for progress in noted.progress)
        nothing_new = SourceRange((topic, 0), (copy, 0), 300, 301)
        copier.copy([nothing_new], noted.add, stop=noted.stop, stall_s=STALL_S, most_s=0.3)
        assert [(each.position, each.done) for each in noted.progress] == [(300, False)]
        produce(source_cluster.bootstrap_servers, topic, numbered(1, start=300))
        copier.copy([nothing_new], noted.add, stop=noted.stop, stall_s=STALL_S)
        assert copier.usable
    finally:
        copier.close()
    for name, its_copy in ((topic, copy), (other, another)):
        wanted = contents(read_partition(source_cluster.bootstrap_servers, name))
        assert contents(read_partition(target_cluster.bootstrap_servers, its_copy)) == wanted
        assert len(producers(target_cluster, its_copy)) == 1


def test_a_copier_that_writes_once_wastes_nothing_when_it_goes_on(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    """Each time with a producer that was claimed for it, whose sequence numbers begin anew: that
    needs no other epoch."""
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(300))
    offsets = create_topic(target, configs={"cleanup.policy": "compact"})
    lane = unique("lane")
    control = LaneTransactions(wire(target), LaneSettings("a-flow", offsets, 10.0, None))
    copier = RangeCopier(
        settings(source_cluster, target_cluster),
        transactions=TransactionPlan(control, lambda key: source_partition("A", key)),
    )
    noted = Noted()
    given: set[tuple[int, ...]] = set()
    try:
        for start in range(0, 300, 100):
            claimed = claim_producers(wire(target), [lane], Deadline(STALL_S), timeout_ms=10_000)
            given.add((claimed[lane].producer_id, claimed[lane].epoch))
            control.begin(ClaimedProducer(lane, claimed[lane]))
            wanted = SourceRange((topic, 0), (copy, 0), start, start + 100)
            copier.copy([wanted], noted.add, stop=noted.stop, stall_s=STALL_S)
            assert all(progress.done for progress in noted.progress)
    finally:
        copier.close()
        control.close()
    there = contents(read_partition(target, copy, isolation="read_committed"))
    assert there == contents(read_partition(source, topic))
    assert producers(target_cluster, copy) == given, "none of them was given up"


@contextmanager
def watched(servers: str, topic: str) -> Iterator[Callable[[], UUID]]:
    """The topic's ID, as new metadata shows it."""
    link = ClusterLink(wire(servers), on_change=lambda: None, topics=[topic])

    def found() -> UUID | None:
        return link.snapshot.topic_ids.get(topic)

    def renewed() -> UUID:
        version = link.snapshot.version
        link.request_refresh([topic])
        wait_until(lambda: link.snapshot.version > version and found(), STALL_S, f"ID of {topic}")
        topic_id = found()
        assert topic_id is not None
        return topic_id

    try:
        yield renewed
    finally:
        link.close()


def known_logs(**facts: Any) -> str:
    """These facts, and no others."""
    none = LogIdentity(0, 0, -1, None, None, (), ())
    return KnownLogs(replace(none, **facts)).to_text()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_is_known_to_be_created_again_is_no_loss(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, side: str
) -> None:
    """Though the copier still has the deleted topic's metadata, which it renews while it copies."""
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    servers, name = (source, topic) if side == "source" else (target, copy)
    produce(source, topic, numbered(100))
    made = settings(source_cluster, target_cluster)
    copier = RangeCopier(
        replace(
            made,
            source=replace(made.source, metadata_max_age_ms=1000),
            target=replace(made.target, metadata_max_age_ms=1000),
        ),
        starts_stored=True,
    )
    noted = Noted()
    try:
        with watched(servers, name) as renewed:
            before = renewed()
            copier.copy(
                [SourceRange((topic, 0), (copy, 0), 0, 100)],
                noted.add,
                stop=noted.stop,
                stall_s=STALL_S,
            )
            delete_topic(servers, name)
            create_again(servers, name)
            if side == "source":
                produce(source, topic, numbered(100))
            wait_until(lambda: renewed() != before, STALL_S, "another ID")
            known = {f"{side}_topic_id": renewed(), f"former_{side}_ids": (before,)}
        copier.copy(
            [SourceRange((topic, 0), (copy, 0), 0, 101, known_logs(**known))],
            noted.add,
            stop=noted.stop,
            stall_s=STALL_S,
            most_s=4.0,
        )
    finally:
        copier.close()
    assert copier.losses == []
    assert noted.progress[0].position == 100
    assert end_offset(target, copy) == (200 if side == "source" else 100)


def test_a_topic_created_again_after_the_range_was_chosen_ends_it(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    """Nothing is copied into the new topic before the caller knows of it."""
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(100))
    with watched(target, copy) as renewed:
        before = renewed()
        delete_topic(target, copy)
        create_again(target, copy)
        wait_until(lambda: renewed() != before, STALL_S, "another ID")
    made = settings(source_cluster, target_cluster)
    copier = RangeCopier(replace(made, losses=LossPolicies(LossPolicy.COPY)), starts_stored=True)
    noted = Noted()
    try:
        known = known_logs(target_topic_id=before, target_end=50)
        wanted = SourceRange((topic, 0), (copy, 0), 50, 100, known)
        copier.copy([wanted], noted.add, stop=noted.stop, stall_s=STALL_S)
    finally:
        copier.close()
    (loss,) = copier.losses
    assert (loss.kind, loss.end, loss.resume) == (LossKind.TARGET_RECREATED, 50, 0)
    assert noted.progress[0].position == 0
    assert end_offset(target, copy) == 0


@pytest.mark.parametrize(
    ("facts", "policy", "told", "position"),
    [
        ({"target_end": 80}, LossPolicy.REPORT, (LossKind.TARGET_LOSS, 0, 80, 50), 100),
        ({"target_end": 80}, LossPolicy.COPY, (LossKind.TARGET_LOSS, 0, 80, 0), 0),
        ({"target_end": 80}, LossPolicy.FAIL, (LossKind.TARGET_LOSS, 0, 80, None), 50),
        ({"epochs": ((0, 0),)}, LossPolicy.REPORT, (LossKind.TRUNCATION, 100, 150, 100), 100),
        ({"epochs": ((0, 0),)}, LossPolicy.COPY, (LossKind.TRUNCATION, 100, 150, 0), 0),
        ({"epochs": ((0, 0),)}, LossPolicy.FAIL, (LossKind.TRUNCATION, 100, 150, None), 150),
    ],
)
def test_a_log_that_ends_before_what_is_known_of_it_has_lost_records(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    facts: Mapping[str, object],
    policy: LossPolicy,
    told: tuple[LossKind, int, int, int | None],
    position: int,
) -> None:
    """The range ends where a loss moves it back: the caller has to store that first."""
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(100))
    made = settings(source_cluster, target_cluster)
    copier = RangeCopier(replace(made, losses=LossPolicies(policy)), starts_stored=True)
    noted = Noted()
    start, end = (150, 151) if "epochs" in facts else (50, 100)
    try:
        wanted = SourceRange((topic, 0), (copy, 0), start, end, known_logs(**facts))
        copier.copy([wanted], noted.add, stop=noted.stop, stall_s=STALL_S, most_s=3.0)
    finally:
        copier.close()
    (loss,) = copier.losses
    assert (loss.kind, loss.first, loss.end, loss.resume) == told
    assert noted.progress[0].position == position


def test_what_one_job_saw_is_all_that_the_next_has_to_know(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(100))
    noted = Noted()
    known = known_logs()
    for start in (0, 50):
        copier = RangeCopier(settings(source_cluster, target_cluster), starts_stored=True)
        try:
            wanted = SourceRange((topic, 0), (copy, 0), start, start + 50, known)
            copier.copy([wanted], noted.add, stop=noted.stop, stall_s=STALL_S)
        finally:
            copier.close()
        assert copier.losses == []
        known = noted.progress[0].known
    seen = KnownLogs.of_text(known)
    assert (seen.facts.position, seen.facts.target_end) == (100, 100)
    assert seen.facts.epochs == ((0, 0),)
    assert (seen.source_checked, seen.target_checked) == (0, 0)
    assert seen.facts.source_topic_id is not None
    assert seen.facts.target_topic_id is not None
