"""The same chain in Java's MirrorMaker 2 and in ours gives the same records, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, running
from tests.support.flows.mirrors import java_mirror_maker
from tests.support.flows.transformed import (
    JSON,
    SMT,
    TOMBSTONES_AND_TESTS,
    events,
    transforms,
    wait_end,
)
from tests.support.records.producing import produce
from tests.support.records.reading import contents, read_partition

CONVERTERS = {
    "A->B.key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "A->B.value.converter": JSON,
    "A->B.header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}
FIELDS = {
    "wrap": {"type": f"{SMT}HoistField$Value", "field": "line"},
    "from": {"type": f"{SMT}InsertField$Value", "static.field": "from", "static.value": "A"},
    "when": {"type": f"{SMT}InsertField$Value", "timestamp.field": "when"},
    "key": {"type": f"{SMT}ValueToKey", "fields": "from"},
    "take": {"type": f"{SMT}ExtractField$Key", "field": "from"},
    "note": {"type": f"{SMT}InsertHeader", "header": "by", "value.literal": '{"a":[1,2]}'},
}


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["bytes", "fields"])
def test_the_same_records_arrive_as_from_java(
    kafka: KafkaRuntime,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    chain: str,
) -> None:
    ours = MirroredFlow(source_cluster, target_cluster)
    java = MirroredFlow(source_cluster, target_cluster, prefix=ours.prefix)
    topic = ours.topic("t")
    produce(ours.source_servers, topic, events(90))
    kept = sum(1 for n in range(90) if n % 3 and n % 5)

    def properties(flow: MirroredFlow, remote: str) -> dict[str, str]:
        router = {"type": f"{SMT}RegexRouter", "regex": f"{flow.a}.*t", "replacement": remote}
        stages = {**TOMBSTONES_AND_TESTS, **(FIELDS if chain == "fields" else {}), "name": router}
        own = {
            **transforms(stages),
            **(CONVERTERS if chain == "fields" else {}),
            "A->B.emit.checkpoints.enabled": "false",
        }
        return flow.properties({"A.consumer.auto.offset.reset": "earliest", **own})

    mine, theirs = f"{ours.prefix}-mine", f"{ours.prefix}-theirs"
    with running(properties(ours, mine), tmp_path / "ours", logs / "ours.log"):
        wait_end(ours, mine, kept)
    with java_mirror_maker(
        kafka, properties(java, theirs), tmp_path / "java", logs / "java.log"
    ) as mirror:
        wait_end(java, theirs, kept, 180)
        mirror.stop(60)
    copies = read_partition(ours.target_servers, mine)
    assert contents(copies) == contents(read_partition(ours.target_servers, theirs))
    assert len(copies) == kept
