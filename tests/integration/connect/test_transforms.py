"""Records of a connector on a real broker, through transformations and its own converters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.runtime.errors import BadRequest
from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.workers.bench import Bench
from tests.support.workers.plugins import Events

SMT = "org.apache.kafka.connect.transforms."


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    Events.release.clear()
    bench = Bench(target_cluster)
    yield bench
    Events.release.set()
    bench.close()


def test_records_go_through_transformations_and_the_connectors_converters(bench: Bench) -> None:
    bench.put(
        "RecordLane",
        count="4",
        transforms="drop,wrap,mark",
        predicates="tombstone",
        transforms_drop_type=f"{SMT}Filter",
        transforms_drop_predicate="tombstone",
        predicates_tombstone_type=f"{SMT}predicates.RecordIsTombstone",
        transforms_wrap_type=f"{SMT}HoistField$Value",
        transforms_wrap_field="lane",
        transforms_mark_type=f"{SMT}InsertField$Value",
        transforms_mark_static_field="by",
        transforms_mark_static_value="us",
        value_converter="org.apache.kafka.connect.json.JsonConverter",
        value_converter_schemas_enable="false",
        header_converter="org.apache.kafka.connect.storage.SimpleHeaderConverter",
    )
    # The lanes give bytes; JSON has them in base64, and the map in the order of Java's.
    bench.arrived('{"lane":"YTow","by":"us"}', '{"lane":"YToz","by":"us"}')


def test_a_dropped_record_is_told_to_the_task_and_not_produced(bench: Bench) -> None:
    bench.put(
        "RecordLane",
        count="4",
        transforms="drop",
        transforms_drop_type=f"{SMT}Filter",
    )
    bench.told("dropped 3")
    assert bench.values() == []
    bench.becomes(State.RUNNING, State.RUNNING)


def test_a_failing_transformation_fails_the_task_and_names_itself(bench: Bench) -> None:
    bench.put(
        "RecordLane",
        transforms="take",
        transforms_take_type=f"{SMT}ExtractField$Value",
        transforms_take_field="id",
    )
    bench.becomes(State.RUNNING, State.FAILED)
    assert "transforms.take" in str(bench.herder.status("lanes").tasks[0].status.trace)


@pytest.mark.parametrize(
    ("kind", "smt", "key"),
    [
        ("TransferLane", "Filter", "transforms"),
        ("RecordLane", "HoistField$Value", "transforms.a.field"),
    ],
)
def test_wrong_transformations_are_refused_when_the_connector_is_put(
    bench: Bench, kind: str, smt: str, key: str
) -> None:
    with pytest.raises(BadRequest) as raised:
        bench.put(kind, transforms="a", transforms_a_type=f"{SMT}{smt}")
    assert f"configuration {key}" in str(raised.value) or f'"{key}"' in str(raised.value)
