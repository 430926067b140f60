"""What arrives on the target is what the source has: keys, values, headers, timestamps, order."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from connect.clients.config.settings import Compression, FetchSettings, ProduceSettings
from connectors.mirror.copy.batches.choice import CopyOptions
from deploy.brokers import KafkaCluster
from tests.support.copier.copying import CopyRun
from tests.support.records.compacting import SOON_COMPACTED, wait_compacted
from tests.support.records.producing import COMPRESSIONS, Record, produce, produce_transactions
from tests.support.records.reading import ReadRecord, contents, read_partition
from tests.support.records.topics import alter_topic, create_topic, end_offset
from tests.support.waiting import wait_until


def varied(count: int, seed: int = 1) -> list[Record]:
    """Records with everything that a record can have, and can lack."""
    draw = random.Random(seed)
    records = []
    for n in range(count):
        key = draw.choice([None, b"", b"k%d" % (n % 7), draw.randbytes(20)])
        value = draw.choice([None, b"", b"v" * draw.randint(1, 900), draw.randbytes(300)])
        headers: Sequence[tuple[str, bytes | None]] = draw.choice(
            [(), (("h", b"1"),), (("dup", b"a"), ("dup", None), ("", b""), ("größe", b"\xff"))]
        )
        records.append(Record(value, key, 0, 1_700_000_000_000 + draw.randint(0, 9_999), headers))
    return records


def copied(
    source: KafkaCluster,
    target: KafkaCluster,
    topic: str,
    copy: str,
    *,
    position: int = 0,
    isolation: str = "read_uncommitted",
    options: CopyOptions | None = None,
    produce_settings: ProduceSettings | None = None,
    fetch: FetchSettings | None = None,
) -> tuple[list[ReadRecord], list[ReadRecord], CopyRun]:
    """Copy all of partition 0, and read both sides."""
    run = CopyRun(
        source.bootstrap_servers,
        target.bootstrap_servers,
        options=options,
        fetch=fetch,
        produce=produce_settings,
    )
    run.add(topic, copy, position=position)
    with run:
        run.wait({(topic, 0): end_offset(source.bootstrap_servers, topic)})
    return (
        read_partition(source.bootstrap_servers, topic, isolation=isolation, start=position),
        read_partition(target.bootstrap_servers, copy),
        run,
    )


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("batch_records", [1, None], ids=["tiny", "batches"])
def test_every_compression_arrives_unchanged(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    compression: str,
    batch_records: int | None,
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    copy = create_topic(target_cluster.bootstrap_servers)
    produce(
        source_cluster.bootstrap_servers,
        topic,
        varied(600),
        compression=compression,
        batch_records=batch_records,
    )

    before, after, run = copied(source_cluster, target_cluster, topic, copy)

    assert len(before) == 600
    assert contents(after) == contents(before)
    assert run.mapping[topic, 0] == {r.offset: n for n, r in enumerate(before)}
    counted = run.metrics[topic, 0].read()
    way = "record-level-record-count" if batch_records else "shallow-record-count"
    assert counted[way] >= 500


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_log_append_time_becomes_the_records_time(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, compression: str
) -> None:
    topic = create_topic(
        source_cluster.bootstrap_servers, configs={"message.timestamp.type": "LogAppendTime"}
    )
    copy = create_topic(target_cluster.bootstrap_servers)
    produce(source_cluster.bootstrap_servers, topic, varied(300), compression=compression)

    before, after, _ = copied(source_cluster, target_cluster, topic, copy)

    assert {record.timestamp_type for record in before} == {"LogAppendTime"}
    assert {record.timestamp_type for record in after} == {"CreateTime"}
    assert contents(after) == contents(before)


def test_a_target_with_log_append_time_takes_the_same_batches(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    copy = create_topic(
        target_cluster.bootstrap_servers, configs={"message.timestamp.type": "LogAppendTime"}
    )
    produce(source_cluster.bootstrap_servers, topic, varied(300), compression="zstd")

    before, after, _ = copied(source_cluster, target_cluster, topic, copy)

    assert [r[3:] for r in after] == [r[3:] for r in before]


@pytest.mark.parametrize("wanted", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_another_compression_changes_the_batches_and_not_the_records(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, wanted: str
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    copy = create_topic(target_cluster.bootstrap_servers)
    for compression in ("none", "lz4"):
        produce(source_cluster.bootstrap_servers, topic, varied(300), compression=compression)
    codec = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[wanted]

    before, after, _ = copied(
        source_cluster,
        target_cluster,
        topic,
        copy,
        options=CopyOptions(codec=codec),
        produce_settings=ProduceSettings(compression=Compression("none")),
    )

    assert len(before) == 600
    assert contents(after) == contents(before)


@pytest.mark.parametrize("position", [1, 99, 100, 250, 599])
def test_copying_goes_on_in_the_middle_of_a_batch(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, position: int
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    copy = create_topic(target_cluster.bootstrap_servers)
    produce(
        source_cluster.bootstrap_servers,
        topic,
        varied(600),
        compression="lz4",
        batch_records=100,
    )

    before, after, _ = copied(source_cluster, target_cluster, topic, copy, position=position)

    assert before[0].offset == position
    assert contents(after) == contents(before)


def test_compacted_topics_keep_their_gaps_out_and_their_order(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    servers = source_cluster.bootstrap_servers
    topic = create_topic(servers, configs={**SOON_COMPACTED, "delete.retention.ms": "60000"})
    copy = create_topic(target_cluster.bootstrap_servers, configs={"cleanup.policy": "compact"})

    def rounds(first: int) -> None:
        for n in range(first, first + 3):
            records = [
                Record(
                    None if k % 5 == n % 5 else b"%d-%d" % (n, k),
                    b"key%d" % k if k % 3 else b"once-%d-%d" % (n, k),
                )
                for k in range(200)
            ]
            produce(servers, topic, records, compression="lz4", batch_records=50)

    rounds(0)

    wait_compacted(servers, topic, 100)

    before, after, run = copied(source_cluster, target_cluster, topic, copy)

    offsets = [record.offset for record in before]
    assert offsets[-1] - offsets[0] + 1 > len(offsets), "compaction left no gap"
    assert sorted(run.mapping[topic, 0]) == run.order[topic, 0]
    assert {r.offset for r in before} <= set(run.mapping[topic, 0])
    by_offset = {record.offset: record for record in after}
    for record in before:
        assert by_offset[run.mapping[topic, 0][record.offset]].content() == record.content()


TRANSACTIONS: list[tuple[Sequence[Record], bool]] = [
    ([Record(b"t%d-%d" % (t, n), b"k%d" % n) for n in range(40)], t % 3 != 1) for t in range(9)
]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_under_both_isolation_levels(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, isolation: str
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    copy = create_topic(target_cluster.bootstrap_servers)
    produce_transactions(source_cluster.bootstrap_servers, topic, TRANSACTIONS, compression="lz4")
    committed = isolation == "read_committed"

    before, after, run = copied(
        source_cluster,
        target_cluster,
        topic,
        copy,
        isolation=isolation,
        options=CopyOptions(read_committed=committed),
        fetch=FetchSettings(isolation_level=1 if committed else 0),
    )

    kept = [t for t, (_, commit) in enumerate(TRANSACTIONS) if commit or not committed]
    assert len(before) == 40 * len(kept)
    assert contents(after) == contents(before)
    assert run.mapping[topic, 0] == {r.offset: n for n, r in enumerate(before)}


def test_large_records_at_the_limit(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    limit = 3_000_000
    settings = {"message.max.bytes": limit}
    topic = create_topic(
        source_cluster.bootstrap_servers, configs={"max.message.bytes": str(limit)}
    )
    copy = create_topic(target_cluster.bootstrap_servers, configs={"max.message.bytes": str(limit)})
    draw = random.Random(3)
    records = [Record(draw.randbytes(limit - 100)), Record(b"small"), Record(draw.randbytes(10))]
    produce(source_cluster.bootstrap_servers, topic, records, settings=settings, batch_records=1)

    before, after, _ = copied(source_cluster, target_cluster, topic, copy)

    assert contents(after) == contents(before)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_batches_above_the_targets_limit_are_split(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, compression: str
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    copy = create_topic(target_cluster.bootstrap_servers, configs={"max.message.bytes": "20000"})
    draw = random.Random(5)
    records = [Record(draw.randbytes(1_000), b"%d" % n) for n in range(300)]
    produce(source_cluster.bootstrap_servers, topic, records, compression=compression)

    before, after, run = copied(source_cluster, target_cluster, topic, copy)

    assert contents(after) == contents(before)
    assert run.mapping[topic, 0] == {n: n for n in range(300)}


def test_a_record_above_the_targets_limit_stops_only_its_partition(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = create_topic(source, partitions=2)
    copy = create_topic(target, partitions=2, configs={"max.message.bytes": "20000"})
    produce(source, topic, [Record(b"first"), Record(b"x" * 50_000), Record(b"last")])
    produce(source, topic, [Record(b"%d" % n, partition=1) for n in range(500)])
    run = CopyRun(source, target)
    run.add(topic, copy, 0)
    run.add(topic, copy, 1)
    with run:
        run.wait({(topic, 1): 500})

        def reason() -> str:
            return run.error(topic, 0) or ""

        # Until the batch is split down to the record, the error is only that it is too large.
        wait_until(lambda: "max.message.bytes" in reason(), 20.0, "the blocked partition says why")
        assert "source offset 1" in reason()
        produce(source, topic, [Record(b"more", partition=1)])
        run.wait({(topic, 1): 501})
        alter_topic(target, copy, {"max.message.bytes": "100000"})
        run.wait({(topic, 0): 3})
        wait_until(lambda: run.error(topic, 0) is None, 10.0, "the error is gone")
    assert contents(read_partition(target, copy)) == contents(read_partition(source, topic))


def test_memory_stays_within_its_bound(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    partitions = 20
    topic = create_topic(source, partitions=partitions)
    copy = create_topic(target, partitions=partitions)
    draw = random.Random(9)
    payload = draw.randbytes(200_000)
    for partition in range(partitions):
        produce(source, topic, [Record(payload, partition=partition) for _ in range(10)])
    bound = 4 * 1024 * 1024
    run = CopyRun(source, target, buffer_bytes=bound)
    for partition in range(partitions):
        run.add(topic, copy, partition)
    with run:
        run.wait({(topic, partition): 10 for partition in range(partitions)})
    # One response may exceed what was asked for by one batch, and buffers come in whole MiB.
    assert run.most_memory <= bound + 2 * 1024 * 1024
