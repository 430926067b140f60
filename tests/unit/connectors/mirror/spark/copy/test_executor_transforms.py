"""Executors run a flow's `transforms` on the topics that they change, and count their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConnectError
from connect.plugin import RawRecord
from connectors.mirror.spark.copy.executor_transforms import (
    ExecutorTransforms,
    one_after_the_other,
)

SMT = "org.apache.kafka.connect.transforms."
MASK = {
    "name": "flow",
    "transforms": "mask",
    "transforms.mask.type": f"{SMT}MaskField$Value",
    "transforms.mask.fields": "card",
    "mirror.transforms.value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "mirror.transforms.value.converter.schemas.enable": "false",
}
ORDERS, CLICKS = ("orders", 1), ("clicks", 0)
NAMES = {"orders": "A.orders"}
GOOD, BAD = RawRecord(5, b"k", b'{"card":"4711"}', ()), RawRecord(5, b"k", b"no JSON", ())


def test_only_topics_that_it_changes_are_transformed() -> None:
    changes = ExecutorTransforms(MASK, (), 1.0).changes([ORDERS, CLICKS], NAMES)
    assert changes.keys() == {ORDERS}
    assert changes[ORDERS](0, GOOD) == GOOD._replace(value=b'{"card":""}')
    assert not ExecutorTransforms({}, (), 1.0).changes([ORDERS], NAMES)


def test_the_errors_of_each_shard_are_counted_once() -> None:
    made = ExecutorTransforms({**MASK, "errors.tolerance": "all"}, (), 1.0)
    change = made.changes([ORDERS], NAMES)[ORDERS]
    assert not made.errors()
    assert change(0, BAD) is None
    assert change(1, BAD) is None
    counted = made.errors()
    assert counted["total-records-skipped"] == 2
    assert counted["last-error-timestamp"] > 0
    change(2, GOOD)
    assert not made.errors()
    change(3, BAD)
    assert made.errors()["total-records-skipped"] == 1


def test_without_tolerance_the_record_that_fails_is_an_error() -> None:
    change = ExecutorTransforms(MASK, (), 1.0).changes([ORDERS], NAMES)[ORDERS]
    with pytest.raises(ConnectError, match="VALUE_CONVERTER"):
        change(0, BAD)


def test_classes_are_found_in_the_directories_of_plugin_path(tmp_path: Path) -> None:
    (tmp_path / "own_on_executors.py").write_text(
        "from connect.sdk import Transformation\n"
        "class Upper(Transformation):\n"
        "    def apply(self, record):\n"
        "        return record.with_value(record.value_schema, record.value.upper())\n"
    )
    own = {"transforms": "up", "transforms.up.type": "own_on_executors.Upper"}
    made = ExecutorTransforms(own, (str(tmp_path),), 1.0)
    assert made.changes([ORDERS], NAMES)[ORDERS](0, RawRecord(5, None, b"v", ())) == RawRecord(
        5, None, b"V", ()
    )


def test_what_the_first_leaves_out_the_second_does_not_see() -> None:
    seen: list[int] = []

    def second(offset: int, record: RawRecord) -> RawRecord:
        seen.append(offset)
        return record._replace(value=b"second")

    both = one_after_the_other(lambda offset, record: record if offset else None, second)
    assert both(0, GOOD) is None
    assert both(1, GOOD) == GOOD._replace(value=b"second")
    assert seen == [1]
