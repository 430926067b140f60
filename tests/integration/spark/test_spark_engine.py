"""A flow copied on Spark, as a user runs it: engines take over from each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.offset_records import mapping, offset_map
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import admin
from tests.support.spark.flow import ONCE, SPARK, START_S, STOP_S, committed
from tests.support.waiting import wait_until

# Sessions of Spark.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.mark.slow
def test_engines_go_on_where_the_other_ended(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """Nothing is copied twice, nothing is lost, and new partitions join while it runs."""
    log = logs / "mirror.log"
    topic = flow.topic("t", partitions=3)
    source = flow.source_servers
    for partition in (0, 1):
        produce(source, topic, numbered(500, partition=partition), batch_records=40)
    worker = flow.properties({**SPARK, "A->B.mirror.engine": "worker"})
    spark = flow.properties(SPARK)

    with running(worker, tmp_path, log) as mirror:
        flow.wait_records(topic, [500, 500])
        stop_cleanly(mirror, log)
    with running(spark, tmp_path, log) as mirror:
        # The task that was committed before begins as one of the worker engine.
        wait_until(lambda: "task 0 on Spark: " in log.read_text(), START_S, "the other engine")
        produce(source, topic, numbered(300, start=500))
        flow.wait_records(topic, [800, 500], START_S)
        client = admin(source)
        client.create_partitions([NewPartitions(topic, 4)])[topic].result(START_S)
        produce(source, topic, numbered(70, partition=3) + numbered(30, start=500, partition=1))
        flow.wait_records(topic, [800, 530, 0, 70], START_S)
        stop_cleanly(mirror, log)
        assert log.read_text().count("task 0 on Spark: ") == 2
    stored = flow.stored_offsets()
    assert stored == {(topic, 0): 799, (topic, 1): 529, (topic, 3): 69}
    with running(worker, tmp_path, log) as mirror:
        produce(source, topic, numbered(10, start=530, partition=1))
        flow.wait_records(topic, [800, 540, 0, 70])
        # The Spark task that was configured before may have begun to start a session: PySpark
        # writes a traceback where that ends.
        assert mirror.stop(STOP_S) == 0, log.read_text()

    assert_equal_logs(flow, topic)
    assert flow.stored_offsets() == {**stored, (topic, 1): 539}
    for partition in (0, 1, 3):
        found = offset_map(source, flow.map_topic, topic, partition)
        expected = mapping(flow, topic, partition)
        assert {before: found.downstream(before) for before in expected} == expected


@pytest.mark.slow
def test_exactly_once_engines_go_on_where_the_other_ended(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """Batches and offsets are committed by executors; new partitions join without a restart."""
    log = logs / "mirror.log"
    topic = flow.topic("t", partitions=3)
    source = flow.source_servers
    worker = flow.properties({**SPARK, **ONCE, "A->B.mirror.engine": "worker"})
    spark = flow.properties({**SPARK, **ONCE})
    for partition in (0, 1):
        produce(source, topic, numbered(500, partition=partition), batch_records=40)

    with running(worker, tmp_path, log) as mirror:
        committed(flow, topic, {0: 500, 1: 500})
        stop_cleanly(mirror, log)
    with running(spark, tmp_path, log) as mirror:
        wait_until(lambda: "task 0 on Spark: " in log.read_text(), START_S, "the other engine")
        for start in range(500, 800, 100):
            produce(source, topic, numbered(100, start=start))
            committed(flow, topic, {0: start + 100})
        client = admin(source)
        client.create_partitions([NewPartitions(topic, 4)])[topic].result(START_S)
        produce(source, topic, numbered(70, partition=3) + numbered(30, start=500, partition=1))
        committed(flow, topic, {0: 800, 1: 530, 3: 70})
        stop_cleanly(mirror, log)
        assert log.read_text().count("task 0 on Spark: ") == 2
        assert "Applied additional work to running task" in log.read_text()
    with running(worker, tmp_path, log) as mirror:
        produce(source, topic, numbered(10, start=530, partition=1))
        committed(flow, topic, {1: 540})
        # The Spark task that was configured before may have begun to start a session: PySpark
        # writes a traceback where that ends.
        assert mirror.stop(STOP_S) == 0, log.read_text()

    assert flow.stored_offsets() == {(topic, 0): 799, (topic, 1): 539, (topic, 3): 69}
    for partition in (0, 1, 3):
        before = read_partition(source, topic, partition)
        after = read_partition(
            flow.target_servers, flow.remote(topic), partition, isolation="read_committed"
        )
        assert contents(after) == contents(before)
        # Nothing was written and aborted either: the stops were clean.
        everything = read_partition(flow.target_servers, flow.remote(topic), partition)
        assert len(everything) == len(before)
        translate = offset_map(source, flow.map_topic, topic, partition)
        assert [translate.downstream(record.offset) for record in before] == [
            record.offset for record in after
        ]
