"""Archived values are unpacked by a schema, beside their bytes. What does not parse is seen."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connect.errors import ConfigError
from connectors.archive.rows import WRITE_SCHEMA
from connectors.archive.unpacking import Unpacking, read_schema
from connectors.spark.arrow import collect
from connectors.spark.properties import with_avro
from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs
from tests.support.records.producing import Record, produce
from tests.support.spark.archives import archive, restore
from tests.support.spark.session import SPARK, session_on

PERSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["null", "string"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
PERSON_AVRO = {
    "type": "record",
    "name": "Person",
    "namespace": "org.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
    ],
}
HEAD = b"\0\0\0\x01\x02"
"""Of schema 258, as Confluent's serializers write it."""


def schema_file(directory: Path, name: str, schema: object) -> Path:
    path = directory / name
    path.write_text(json.dumps(schema))
    return path


def unpacked(
    session: SparkSession, path: Path, values: Mapping[str, bytes | None], *, headed: bool = True
) -> dict[str, tuple[object, bool, int | None]]:
    """What becomes of values, by a name: unpacked, whether they do not parse, and schema ID."""
    rows: list[tuple[object, ...]] = [
        (number, 0, 0, name.encode(), value, [], -1)
        for number, (name, value) in enumerate(values.items())
    ]
    frame = session.createDataFrame(rows, WRITE_SCHEMA)
    unpacking = Unpacking({"value": read_schema(path, headed=headed)})
    return {
        row["key"].decode(): (row["value_unpacked"], row["value_unparsed"], row["value_schema_id"])
        for row in collect(unpacking.of(frame)).to_pylist()
    }


def zigzag(number: int) -> bytes:
    """An Avro long."""
    rest, found = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def person(number: int, name: str | None) -> bytes:
    """An Avro record of PERSON_AVRO."""
    text = b"" if name is None else zigzag(len(name)) + name.encode()
    return zigzag(number) + zigzag(name is not None) + text


def test_json_is_unpacked_with_and_without_a_schema_id(spark: SparkSession, tmp_path: Path) -> None:
    path = schema_file(tmp_path, "person.json", PERSON)
    found = unpacked(
        spark,
        path,
        {
            "whole": b'{"id": 1, "name": "Ada", "tags": ["a", "b"], "other": 7}',
            "headed": HEAD + b'{"id": 2}',
            "empty": b"{}",
            "none": None,
            "no JSON": b"\xff\xfe id",
            "cut": b'{"id": 1, "name": "A',
            "wrong type": b'{"id": "one", "name": "Ada"}',
            "array": b'[{"id": 1}]',
            "no bytes": b"",
            "zeros": b"\0\0\0",
        },
    )
    nothing = {"id": None, "name": None, "tags": None}
    assert found == {
        "whole": ({"id": 1, "name": "Ada", "tags": ["a", "b"]}, False, None),
        "headed": ({**nothing, "id": 2}, False, 258),
        "empty": (nothing, False, None),
        "none": (None, False, None),
        "no JSON": (None, True, None),
        "cut": (None, True, None),
        "wrong type": (None, True, None),
        "array": (None, True, None),
        "no bytes": (None, True, None),
        "zeros": (None, True, None),
    }


def test_an_archive_with_unpacked_values_is_restored_byte_for_byte(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic("people")
    values = [b'{"id":  %d}' % n if n % 10 else b"no JSON" for n in range(50)]
    produce(flow.source_servers, topic, [Record(value, b"k") for value in values])
    path = schema_file(tmp_path, "person.json", PERSON)
    properties = flow.properties()

    with caplog.at_level(logging.WARNING, "connectors.archive.job"):
        archive(properties, tmp_path, spark, unpacking=Unpacking({"value": read_schema(path)}))
    restore(properties, tmp_path, spark)

    assert f"{topic}: 5 keys or values do not parse by their schema" in caplog.text
    frame = spark.read.parquet(str(tmp_path / "archive" / "data")).orderBy("offset")
    rows = collect(frame).to_pylist()
    assert [row["value"] for row in rows] == values
    assert [row["value_unpacked"] and row["value_unpacked"]["id"] for row in rows] == [
        n if n % 10 else None for n in range(50)
    ]
    assert [row["value_unparsed"] for row in rows] == [n % 10 == 0 for n in range(50)]
    assert_equal_logs(flow, topic)


def test_a_session_without_avro_is_told_what_it_lacks(spark: SparkSession, tmp_path: Path) -> None:
    path = schema_file(tmp_path, "person.avsc", PERSON_AVRO)
    with pytest.raises(ConfigError, match=r"--packages org\.apache\.spark:spark-avro_2\.13"):
        Unpacking({"value": read_schema(path)}).check(spark)


@pytest.mark.slow  # Sessions with Spark's Avro functions.
def test_avro_is_unpacked(tmp_path: Path) -> None:
    path = schema_file(tmp_path, "person.avsc", PERSON_AVRO)
    ada = {"id": 300, "name": "Ada"}
    with session_on(with_avro(SPARK)) as session:
        headed = unpacked(
            session,
            path,
            {
                "whole": HEAD + person(300, "Ada"),
                "null inside": HEAD + person(0, None),
                "none": None,
                "no head": b"\x01" + person(300, "Ada"),
                "cut": (HEAD + person(300, "Ada"))[:-1],
                "head alone": HEAD,
                "a long length": HEAD + zigzag(1) + zigzag(1) + zigzag(2**40) + b"x",
            },
        )
        bare = unpacked(
            session,
            path,
            {"whole": person(300, "Ada"), "cut": person(300, "Ada")[:-1], "none": None},
            headed=False,
        )
        wrong = schema_file(tmp_path, "wrong.avsc", {"type": "no such type"})
        with pytest.raises(ConfigError, match=r"wrong\.avsc"):
            Unpacking({"value": read_schema(wrong)}).check(session)
    assert headed == {
        "whole": (ada, False, 258),
        "null inside": ({"id": 0, "name": None}, False, 258),
        "none": (None, False, None),
        "no head": (None, True, None),
        "cut": (None, True, 258),
        "head alone": (None, True, 258),
        "a long length": (None, True, 258),
    }
    assert bare == {
        "whole": (ada, False, None),
        "cut": (None, True, None),
        "none": (None, False, None),
    }
