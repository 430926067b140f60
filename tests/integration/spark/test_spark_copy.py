"""Shards copied by Spark's Python processes, between real clusters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from pyspark.sql import SparkSession

from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.spark.copy.executor import ShardLimits, shard_copier
from connectors.mirror.spark.copy.shards import CopyFlow, copy_shard
from deploy.brokers import KafkaCluster
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import create_topic, end_offset

STALL_S = 30.0


def flow_between(source: KafkaCluster, target: KafkaCluster, **more: Mapping[str, str]) -> CopyFlow:
    connector = {
        "name": "copied-by-spark",
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
    }
    return CopyFlow(
        connector,
        {"bootstrap.servers": source.bootstrap_servers, **more.get("consumer", {})},
        {"bootstrap.servers": target.bootstrap_servers, **more.get("producer", {})},
    )


def test_shards_are_copied_and_go_on_where_they_ended(
    spark: SparkSession, source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source, partitions=3), create_topic(target, partitions=3)
    for partition in range(3):
        produce(source, topic, numbered(1000, partition=partition), batch_records=50)
    flow = flow_between(source_cluster, target_cluster)
    for start, end in ((0, 333), (333, 1000)):
        ranges = [SourceRange((topic, n), (copy, n), start, end) for n in range(3)]
        for shard in (ranges[:1], ranges[1:]):
            result = copy_shard(spark, flow, shard, ShardLimits(STALL_S))
            assert result.error is None
            assert [each.range for each in result.progress] == shard
            for progress in result.progress:
                assert progress.done
                assert progress.records == end - start
                assert progress.bytes > 0
                assert (progress.log_start, progress.high_watermark) == (0, 1000)
            counts = Counter[TopicPartition]()
            for line in result.copied:
                counts[line.source] += line.records
            assert counts == {each.source: end - start for each in shard}
    for n in range(3):
        wanted = read_partition(source, topic, n)
        assert contents(read_partition(target, copy, n)) == contents(wanted)


def test_a_shard_that_cannot_move_says_why(
    spark: SparkSession, source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source, partitions=2), create_topic(target)
    produce(source, topic, numbered(10) + numbered(10, partition=1))
    flow = flow_between(source_cluster, target_cluster)
    good = SourceRange((topic, 0), (copy, 0), 0, 10)
    bad = SourceRange((topic, 1), (copy, 1), 0, 10)

    stalled = copy_shard(spark, flow, [good, bad], ShardLimits(2.0))
    assert end_offset(target, copy) == 10
    assert f"{topic}-1 at 0" in (stalled.error or "")

    late = copy_shard(spark, flow, [bad], ShardLimits(60.0, most_s=1.0))
    assert late.error is None
    (progress,) = late.progress
    assert (progress.position, progress.done) == (0, False)
    assert progress.error is not None
    assert f"{copy}-1 is not available" in progress.error


def test_no_secret_of_the_flow_shows_in_a_plan(
    spark: SparkSession, source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    secret = "no-one-is-to-see-this"
    flow = flow_between(
        source_cluster,
        target_cluster,
        consumer={"ssl.key.password": secret},
        producer={"sasl.jaas.config": f'Module required password="{secret}";'},
    )
    copier = shard_copier(flow, [SourceRange(("t", 0), ("u", 0), 0, 1)], ShardLimits(1.0, math.inf))
    lineage = spark.sparkContext.parallelize([0], 1).map(copier).toDebugString()
    assert lineage is not None
    assert b"PythonRDD" in lineage
    failed = copy_shard(spark, flow, [SourceRange(("t", 0), ("u", 0), 0, 1)], ShardLimits(1.0))
    assert failed.error is not None
    for shown in (lineage.decode(), repr(flow), failed.error):
        assert secret not in shown
