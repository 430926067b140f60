"""What a mirror wrote, as tables of the data source, is what our own readers of its topics find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from connectors.dataframes import SCHEMAS, MirrorFrames
from connectors.mirror.audit.findings import Kind
from connectors.spark.arrow import collect
from deploy.brokers import KafkaCluster
from deploy.examples.plot_flow import lag_by_topic, readiness_by_group, throughput_by_topic
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.properties_files import properties_text
from tests.support.records.groups import commit, latest_checkpoints
from tests.support.records.offset_records import heartbeats, mapping, offset_syncs
from tests.support.records.producing import numbered, produce, produce_transactions
from tests.support.records.topics import unique
from tests.support.waiting import wait_until

FILE = "frames.properties"

# Each table is planned and read by Python processes that start for it.
pytestmark = pytest.mark.timeout(400)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = collect(frame).to_pylist()
    return found


def test_frames_show_what_the_mirrors_topics_hold(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    spark: SparkSession,
    tmp_path: Path,
    logs: Path,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic, group = flow.topic("t"), unique(f"{flow.prefix}.ä")
    produce_transactions(
        flow.source_servers, topic, [(numbered(20, start=20 * n), n != 1) for n in range(3)]
    )
    properties = flow.properties(
        {
            "A.consumer.isolation.level": "read_committed",
            "groups": f"{flow.prefix}.*",
            "emit.heartbeats.enabled": "true",
            "mirror.history.url": f"sqlite:///{tmp_path}/history.db",
        }
    )
    path = tmp_path / FILE
    path.write_text(properties_text(properties))
    frames = MirrorFrames(spark, path)
    assert frames.table("offset_map").count() == frames.table("checkpoints").count() == 0
    (before,) = rows(frames.table("lag"))
    assert (before["topic"], before["log_end_offset"]) == (topic, 63)
    assert (before["current_offset"], before["lag"]) == (None, None)

    with running(properties, tmp_path, logs / "mirror.log") as mirror:
        flow.wait_records(topic, [40])
        exact = mapping(flow, topic)
        commit(flow.source_servers, group, {(topic, 0): max(exact)}, "by hand")
        expected = {(flow.remote(topic), 0): (max(exact), exact[max(exact)])}
        wait_until(lambda: latest_checkpoints(flow, group) == expected, 60, "the checkpoint")
        stop_cleanly(mirror, logs / "mirror.log")
    produce(flow.source_servers, topic, numbered(5))

    runs = rows(frames.table("offset_map").orderBy("source_start"))
    assert {
        run["source_start"] + n: run["target_start"] + n
        for run in runs
        for n in range(run["records"])
    } == exact
    (checkpoint,) = rows(frames.table("checkpoints").where(f"group_id = '{group}'"))
    assert list(checkpoint.values())[1:6] == [
        flow.remote(topic),
        0,
        *expected[flow.remote(topic), 0],
        "by hand\0",  # as librdkafka commits it
    ]
    syncs = rows(frames.table("offset_syncs").orderBy("offset"))
    assert [(row["upstream_offset"], row["downstream_offset"]) for row in syncs] == [
        (sync.upstream_offset, sync.downstream_offset)
        for sync in offset_syncs(flow.source_servers, flow.syncs_topic)
    ]
    of_flow = f"source = '{flow.a}' and target = '{flow.b}'"
    ours = rows(frames.table("heartbeats").where(of_flow))
    sent = heartbeats(flow.target_servers, "heartbeats", flow.a, flow.b)
    assert sorted(round(row["sent_at"].timestamp() * 1000) for row in ours) == sorted(
        beat.timestamp_ms for beat, _ in sent
    )
    assert sent

    (lag,) = rows(frames.table("lag"))
    assert lag["current_offset"] in (62, 63), "before or after the last marker"
    assert lag == {
        "topic": topic,
        "partition": 0,
        "target_topic": flow.remote(topic),
        "current_offset": lag["current_offset"],
        "log_start_offset": 0,
        "log_end_offset": 68,
        "lag": 68 - lag["current_offset"],
    }
    (ready,) = rows(frames.table("groups").where(f"group_id = '{group}'"))
    assert ready["current_offset"] == max(exact)
    assert ready["target_offset"] == exact[max(exact)]
    assert (ready["target_log_end_offset"], ready["read_again"]) == (40, 0)
    assert (ready["ready"], ready["live"], ready["error"]) == (True, True, None)
    (audited,) = rows(frames.table("audit", topics=topic))
    assert (audited["topic"], audited["equal"], audited["pending"]) == (topic, 40, 5)
    assert [audited[kind.value] for kind in Kind] == [0] * len(Kind)
    assert rows(frames.table("audit", topics="none")) == []

    copied = rows(frames.table("ranges").orderBy("source_start"))
    assert copied[0]["source_start"] == 0
    assert sum(row["records"] for row in copied) == len(exact)
    assert throughput_by_topic(frames)[topic]
    assert lag_by_topic(frames).keys() <= {topic}
    assert readiness_by_group(frames)[group] == (1, 0)
    assert {row["kind"] for row in rows(frames.table("events"))} == {"task.started", "task.stopped"}

    assert frames.create_views("flow_") == [f"flow_{name}" for name in SCHEMAS]
    joined = """
        SELECT m.source_start FROM flow_offset_map m JOIN flow_checkpoints c
        ON c.upstream_offset >= m.source_start AND c.upstream_offset < m.source_start + m.records
    """
    assert rows(spark.sql(joined)) == [{"source_start": runs[-1]["source_start"]}]
