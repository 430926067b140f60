"""A flow that `mirror.transform` changes on Spark, whose processes are killed in the middle: what
the transformation keeps is there in order, changed once, and the map leads to it."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.killed_mirrors import (
    caught_up,
    make_topics,
    repeats,
    wait_copying,
    wait_rounds,
)
from tests.support.flows.mirrored import MirroredFlow, running
from tests.support.records.offset_records import offset_map
from tests.support.records.reading import ReadRecord, contents, read_partition
from tests.support.records.steady import SteadyWriter
from tests.support.spark.kills import SPARK, STOP_S, WAIT_S, kill_spark

# A Spark session starts for each life of a mirror.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

KILLS = 2
CHANGED = {
    **SPARK,
    "A->B.mirror.spark.batch.ms": "1000",
    "A->B.mirror.transform": "SELECT topic, partition, offset, concat('seen ', CAST(value AS STRING"
    ")) AS value FROM records WHERE NOT CAST(value AS STRING) RLIKE '-[23]$'",
    "A->B.mirror.transform.topics": r".*\.(plain|transactional)",
}
ONCE = {"B.exactly.once.source.support": "enabled"}


def changed(records: list[ReadRecord]) -> list[ReadRecord]:
    """What the transformation makes of these."""
    return [
        record._replace(value=b"seen " + value)
        for record in records
        if not (value := record.value or b"").endswith((b"-2", b"-3"))
    ]


@pytest.mark.parametrize("sign", ["SparkSubmit", "pyspark.daemon"])
@pytest.mark.parametrize("once", [{}, ONCE], ids=["at-least-once", "exactly-once"])
def test_spark_killed_while_it_transforms_loses_nothing(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    once: Mapping[str, str],
    sign: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    plain, transactional, _ = topics
    draw = random.Random(13)
    with running(flow.properties({**CHANGED, **once}), tmp_path, log) as mirror:
        with SteadyWriter(flow.source_servers, *topics) as writer:
            for _ in range(KILLS):
                wait_copying(flow, plain, WAIT_S)
                time.sleep(draw.uniform(0.0, 1.0))
                kill_spark(mirror, sign)
                wait_rounds(writer, 30)
                wait_copying(flow, plain, WAIT_S)
        caught_up(flow, topics, WAIT_S)
        # What the gateway says of a lost process is in the log, with tracebacks.
        assert mirror.stop(STOP_S) == 0, log.read_text()
    for topic, partition in ((plain, 0), (plain, 1), (transactional, 0)):
        source = read_partition(flow.source_servers, topic, partition, isolation="read_committed")
        before = changed(source)
        assert len(before) < len(source), "the transformation leaves records out"
        remote = flow.remote(topic)
        after = read_partition(flow.target_servers, remote, partition, isolation="read_committed")
        if once:
            assert contents(after) == contents(before), f"{topic}-{partition}"
        else:
            assert repeats(before, after) <= KILLS, f"{topic}-{partition}"
        translate = offset_map(flow.source_servers, flow.map_topic, topic, partition)
        copies = {record.content(): record.offset for record in after}
        # Executors that were killed under exactly-once have not told all that they committed.
        known = [
            record
            for record in before
            if not once
            or any(s.source <= record.offset < s.source + s.length for s in translate.segments)
        ]
        assert known, f"{topic}-{partition}"
        for record in known:
            there = translate.downstream(record.offset)
            assert there == copies[record.content()], f"{topic}-{partition}, {record.offset}"
