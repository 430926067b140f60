"""The same chain in Java's MirrorMaker 2 and in ours gives the same records, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, running
from tests.support.flows.mirrors import java_mirror_maker
from tests.support.flows.transformed import (
    JSON,
    JSON_VALUES,
    READ_JSON,
    SMT,
    TOMBSTONES_AND_TESTS,
    events,
    transforms,
    wait_end,
)
from tests.support.records.producing import Record, produce
from tests.support.records.reading import contents, read_partition
from tests.support.workers.java import with_class

Stages = Mapping[str, Mapping[str, str]]

FIELDS = {
    "wrap": {"type": f"{SMT}HoistField$Value", "field": "line"},
    "from": {"type": f"{SMT}InsertField$Value", "static.field": "from", "static.value": "A"},
    "when": {"type": f"{SMT}InsertField$Value", "timestamp.field": "when"},
    "key": {"type": f"{SMT}ValueToKey", "fields": "from"},
    "take": {"type": f"{SMT}ExtractField$Key", "field": "from"},
    "note": {"type": f"{SMT}InsertHeader", "header": "by", "value.literal": '{"a":[1,2]}'},
}
OF_JSON = {
    "mask": {"type": f"{SMT}MaskField$Value", "fields": "card,paid", "replacement": "0"},
    "less": {"type": f"{SMT}ReplaceField$Value", "exclude": "note", "renames": "id:number"},
    "from": {
        "type": f"{SMT}InsertField$Value",
        "static.field": "from",
        "static.value": "A",
        "timestamp.field": "when",
    },
    "cast": {"type": f"{SMT}Cast$Value", "spec": "number:string,paid:float64"},
    "flat": {"type": f"{SMT}Flatten$Value", "delimiter": "_"},
    "key": {"type": f"{SMT}ValueToKey", "fields": "from,number"},
}


@dataclass(frozen=True)
class Chain:
    """`java`: stages of Java's alone, before the others. `ours`: properties of ours alone."""

    stages: Stages = field(default_factory=dict)
    converters: Mapping[str, str] = field(default_factory=dict)
    java: Stages = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)


CHAINS = {
    "bytes": Chain(),
    "fields": Chain(
        FIELDS,
        {
            "A->B.key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "A->B.value.converter": JSON,
            "A->B.header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        },
    ),
    "json": Chain(
        OF_JSON,
        {
            f"A->B.{part}.converter{key}": value
            for part in ("key", "value")
            for key, value in (("", JSON), (".schemas.enable", "false"))
        },
        {"read": {"type": READ_JSON.stem}},
        JSON_VALUES,
    ),
}


def as_json(record: Record) -> Record:
    """The record with an order in place of its text."""
    if record.value is None:
        return record
    number = int(record.value[1:])
    order = {
        "id": number * 10**15,
        "card": f"4711-{number}",
        "paid": number / 7,
        "note": None,
        "customer": {"name": 'Zoë "\U0001f600"\n', "tags": ["a", number, None, {"b": 1e-9}]},
        "open": number % 2 == 0,
        "left": None,
    }
    return replace(record, value=json.dumps(order, ensure_ascii=number % 4 == 0).encode())


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_the_same_records_arrive_as_from_java(
    kafka: KafkaRuntime,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    name: str,
) -> None:
    chain = CHAINS[name]
    ours = MirroredFlow(source_cluster, target_cluster)
    java = MirroredFlow(source_cluster, target_cluster, prefix=ours.prefix)
    topic = ours.topic("t")
    records = events(90)
    produce(ours.source_servers, topic, map(as_json, records) if name == "json" else records)
    kept = sum(1 for n in range(90) if n % 3 and n % 5)

    def properties(
        flow: MirroredFlow, remote: str, stages: Stages, own: Mapping[str, str]
    ) -> dict[str, str]:
        router = {"type": f"{SMT}RegexRouter", "regex": f"{flow.a}.*t", "replacement": remote}
        return flow.properties(
            {
                "A.consumer.auto.offset.reset": "earliest",
                "A->B.emit.checkpoints.enabled": "false",
                **transforms({**TOMBSTONES_AND_TESTS, **stages, "name": router}),
                **chain.converters,
                **own,
            }
        )

    mine, theirs = f"{ours.prefix}-mine", f"{ours.prefix}-theirs"
    of_ours = properties(ours, mine, chain.stages, chain.ours)
    with running(of_ours, tmp_path / "ours", logs / "ours.log"):
        wait_end(ours, mine, kept)
    if chain.java:
        (tmp_path / "classes").mkdir()
        kafka = with_class(kafka, READ_JSON, tmp_path / "classes")
    of_java = properties(java, theirs, {**chain.java, **chain.stages}, {})
    with java_mirror_maker(kafka, of_java, tmp_path / "java", logs / "java.log") as mirror:
        wait_end(java, theirs, kept, 180)
        mirror.stop(60)
    copies = read_partition(ours.target_servers, mine)
    assert contents(copies) == contents(read_partition(ours.target_servers, theirs))
    assert len(copies) == kept
