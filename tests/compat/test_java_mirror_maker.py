"""Java's MirrorMaker 2 itself runs from our class path: the peer of other tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrormaker1 import offset_rows
from tests.support.flows.mirrors import java_mirror_maker, mm2_properties
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import create_topic, end_offset, has_topic
from tests.support.waiting import wait_until


@pytest.mark.slow
def test_java_mirrors_a_topic_and_our_checker_shows_its_lag(
    kafka: KafkaRuntime,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = create_topic(source)
    produce(source, topic, numbered(50))
    properties = mm2_properties(source, target, {"source->target.topics": topic})
    with java_mirror_maker(kafka, properties, tmp_path, logs / "java.log") as mirror:
        copy = f"source.{topic}"
        wait_until(lambda: has_topic(target, copy), 90, "creation of the copy")
        wait_until(lambda: end_offset(target, copy) == 50, 60, "copying of 50 records")
        flow = ("--config", str(tmp_path / "mm2.properties"), "--topic", topic)
        shown = ["source->target", topic, "0", "50", "50", "0"]
        wait_until(lambda: offset_rows(*flow) == [[*shown, "source-mm2"]], 60, "the checker's row")
        assert mirror.stop(30) != 0, "Java ends with 128 + SIGTERM"
    produce(source, topic, numbered(5, start=50))
    assert offset_rows(*flow) == [[*shown[:4], "55", "5", "none"]]
    assert contents(read_partition(target, copy)) == contents(read_partition(source, topic))[:50]
