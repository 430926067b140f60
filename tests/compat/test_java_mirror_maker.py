"""Java's MirrorMaker 2 itself runs from our class path: the peer of other tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.mirrors import java_mirror_maker, mm2_properties
from tests.support.producing import numbered, produce
from tests.support.reading import contents, read_partition
from tests.support.topics import create_topic, end_offset, has_topic
from tests.support.waiting import wait_until


@pytest.mark.slow
def test_java_mirrors_a_topic(
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
        assert mirror.stop(30) != 0, "Java ends with 128 + SIGTERM"
    assert contents(read_partition(target, copy)) == contents(read_partition(source, topic))
