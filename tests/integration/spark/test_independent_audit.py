"""Our audit finds what an independent one finds, by DataFrames of Spark's own Kafka source."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.dataframes import MirrorFrames
from connectors.mirror.audit.findings import Kind
from connectors.spark.arrow import collect
from deploy.brokers import KafkaCluster
from tests.support.flows.backfills import properties_file
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.frame_audit import FrameAudit, frame_audit
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic

NOW_MS = 1_700_000_000_000
COUNT, PARTITIONS = 500, 3

pytestmark = pytest.mark.timeout(300)


def records(partition: int) -> list[Record]:
    """Told apart by their values; each seventh is a tombstone, each fifth has headers."""
    return [
        Record(
            None if n % 7 == 0 else b"v%d" % n,
            b"k%d" % n,
            partition,
            NOW_MS + n,
            [("h", b"%d" % n), ("none", None)] if n % 5 == 0 else (),
        )
        for n in range(COUNT)
    ]


def spoiled(copy: list[Record], seed: int) -> list[Record]:
    """Some records lost, changed and doubled, away from each other."""
    chosen = random.Random(seed).sample(range(10, COUNT - 10, 10), 9)
    lost, changed, doubled = set(chosen[:3]), set(chosen[3:6]), set(chosen[6:])
    found: list[Record] = []
    for number, record in enumerate(copy):
        if number in lost:
            continue
        if number in changed:
            record = Record(b"other", record.key, record.partition, record.timestamp_ms)
        found += [record] * (2 if number in doubled else 1)
    return found


def test_both_audits_find_the_same(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    frames = MirrorFrames(spark, properties_file(flow.properties(), tmp_path))
    for seed in (None, 1):
        topic = flow.topic(f"t{seed}", partitions=PARTITIONS)
        remote = create_topic(flow.target_servers, name=flow.remote(topic), partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            copy = records(partition)
            produce(flow.source_servers, topic, copy, compression="lz4", batch_records=100)
            if seed is not None:
                copy = spoiled(copy, seed + partition)
            produce(flow.target_servers, remote, copy, compression="zstd", batch_records=70)

        independent = frame_audit(
            spark, (flow.source_servers, topic), (flow.target_servers, remote)
        )
        found = collect(frames.table("audit", topics=topic)).to_pylist()
        ours = {
            name: sum(row[name] for row in found)
            for name in ("equal", *(kind.value for kind in Kind))
        }

        assert [row["error"] for row in found] == [None] * PARTITIONS
        assert ours["moved"] == 0
        assert independent == FrameAudit(
            ours["equal"],
            ours["missing"] + ours["changed"],
            ours["changed"] + ours["duplicate"] + ours["extra"],
            in_order=True,
        )
        assert independent == (
            FrameAudit(PARTITIONS * COUNT, 0, 0, in_order=True)
            if seed is None
            else FrameAudit(PARTITIONS * (COUNT - 6), PARTITIONS * 6, PARTITIONS * 6, in_order=True)
        )
