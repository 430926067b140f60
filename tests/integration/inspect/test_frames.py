"""What a mirror wrote, loaded as DataFrames, is what our own readers of its topics find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from connectors.dataframes import MirrorFrames
from connectors.mirrormaker.flow_lookup import named_flow
from connectors.spark.arrow import collect
from deploy.brokers import KafkaCluster
from deploy.examples.plot_flow import lag_by_topic, throughput_by_topic
from tests.support.groups import commit, latest_checkpoints
from tests.support.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.offset_records import heartbeats, mapping, offset_syncs
from tests.support.producing import numbered, produce_transactions
from tests.support.topics import unique
from tests.support.waiting import wait_until

FILE = "frames.properties"


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
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    frames = MirrorFrames(spark, named_flow(path, None).properties)
    assert frames.ranges().count() == frames.checkpoints().count() == 0

    with running(properties, tmp_path, logs / "mirror.log") as mirror:
        flow.wait_records(topic, [40])
        exact = mapping(flow, topic)
        commit(flow.source_servers, group, {(topic, 0): max(exact)}, "by hand")
        expected = {(flow.remote(topic), 0): (max(exact), exact[max(exact)])}
        wait_until(lambda: latest_checkpoints(flow, group) == expected, 60, "the checkpoint")
        stop_cleanly(mirror, logs / "mirror.log")

    ranges = rows(frames.ranges().where(f"topic = '{topic}'").orderBy("source_start"))
    assert {
        row["source_start"] + n: row["target_start"] + n
        for row in ranges
        for n in range(row["records"])
    } == exact
    (checkpoint,) = rows(frames.checkpoints().where(f"`group` = '{group}'"))
    assert list(checkpoint.values())[1:6] == [
        flow.remote(topic),
        0,
        *expected[flow.remote(topic), 0],
        "by hand\0",  # as librdkafka commits it
    ]
    syncs = rows(frames.offset_syncs().orderBy("upstream"))
    assert [(row["upstream"], row["downstream"]) for row in syncs] == sorted(
        (sync.upstream_offset, sync.downstream_offset)
        for sync in offset_syncs(flow.source_servers, flow.syncs_topic)
    )
    ours = rows(frames.heartbeats().where(f"source = '{flow.a}' and target = '{flow.b}'"))
    sent = heartbeats(flow.target_servers, "heartbeats", flow.a, flow.b)
    assert sorted(round(row["sent_at"].timestamp() * 1000) for row in ours) == sorted(
        beat.timestamp_ms for beat, _ in sent
    )
    assert sent

    copied = rows(frames.copied().where(f"topic = '{topic}'").orderBy("source_start"))
    assert copied[0]["source_start"] == 0
    assert sum(row["records"] for row in copied) == len(exact)
    assert throughput_by_topic(frames)[topic]
    assert lag_by_topic(frames).keys() <= {topic}
    assert rows(frames.events()) == []
