"""What a mirror's transformations read, and what stays the bytes that it is."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from connect.data.record import ConnectRecord, SourceRecord
from connect.data.transforms.base import R, Transformation
from connect.data.transforms.insert_header import InsertHeader
from connect.errors import ConnectError
from connect.plugin import RawRecord
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import ErrorHandling, RecordErrors
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.tasks.record_converters import NamedConverters
from connect.runtime.transfer.record_transforms import (
    WorkerRecordTransforms,
    make_record_transforms,
)

SMT = "org.apache.kafka.connect.transforms."
JSON = "org.apache.kafka.connect.json.JsonConverter"
READS_JSON = {
    "mirror.transforms.value.converter": JSON,
    "mirror.transforms.value.converter.schemas.enable": "false",
}
NOTE = {"type": f"{SMT}InsertHeader", "header": "by", "value.literal": "mirror"}
SPACED = b'{ "id" : 1.50 }'


class Length(Transformation):
    """Needs the value, and does not say so."""

    def apply(self, record: R) -> R | None:
        assert isinstance(record.value, dict)
        return record.with_headers([("fields", str(len(record.value)))])


class CountedNote(InsertHeader):
    """As InsertHeader, but it looks at the value, too."""

    def apply(self, record: R) -> R | None:
        return Length().apply(record)


def transforms(config: Mapping[str, str]) -> WorkerRecordTransforms:
    plugins = PluginRegistry(discover=False)
    plugins.register(Length)
    plugins.register(CountedNote)
    errors: RecordErrors[SourceRecord] = RecordErrors(
        ErrorHandling(), ErrorMetrics(), lambda record: record.topic
    )
    return make_record_transforms(
        plugins, NamedConverters(plugins), config, "mirror.transforms.", errors
    )


def change(
    stages: Mapping[str, Mapping[str, str]], value: bytes, extra: Mapping[str, str] = READS_JSON
) -> RawRecord | None:
    config = {
        "transforms": ",".join(stages),
        **{f"transforms.{a}.{k}": v for a, keys in stages.items() for k, v in keys.items()},
        "predicates": "orders, null",
        "predicates.orders.type": f"{SMT}predicates.TopicNameMatches",
        "predicates.orders.pattern": "orders",
        "predicates.null.type": f"{SMT}predicates.RecordIsTombstone",
        **extra,
    }
    _, transform = transforms(config).of_topic("t", "t")
    assert transform is not None
    return transform.apply(0, 7, RawRecord(5, b"k", value, ()))


@pytest.mark.parametrize("value", [SPACED, b"no JSON"])
def test_what_no_transformation_looks_at_keeps_its_bytes(value: bytes) -> None:
    masked = {"type": f"{SMT}MaskField$Value", "fields": "id", "predicate": "orders"}
    named = {"type": f"{SMT}RegexRouter", "regex": "t", "replacement": "u"}
    made = change({"note": NOTE, "mask": masked, "name": named}, value)
    assert made == RawRecord(5, b"k", value, (("by", b"mirror"),))


@pytest.mark.parametrize("own", ["Length", "CountedNote"])
def test_a_transformation_that_does_not_say_what_it_reads_gets_all(own: str) -> None:
    keys = {key: NOTE[key] for key in NOTE if key != "type"} if own == "CountedNote" else {}
    made = change({"own": {"type": own, **keys}}, SPACED)
    assert made == RawRecord(5, b"k", b'{"id":1.5}', (("fields", b"1"),))


def test_a_predicate_that_looks_at_the_value_gets_it_converted() -> None:
    null = {"type": f"{SMT}Filter", "predicate": "null"}
    assert change({"full": null}, b"null") is None
    with pytest.raises(ConnectError, match="VALUE_CONVERTER"):
        change({"full": null}, b"no JSON")


def test_another_converter_that_writes_gets_what_is_read() -> None:
    made = change(
        {"note": NOTE},
        SPACED,
        {**READS_JSON, "value.converter": JSON, "value.converter.schemas.enable": "true"},
    )
    assert made is not None
    assert json.loads(made.value or b"") == {"schema": None, "payload": {"id": 1.5}}


def test_a_record_made_quickly_is_a_record() -> None:
    plain = SourceRecord({"topic": "t"}, {"offset": 1}, "t", 0, b"k", b"v", 5)
    made = SourceRecord.of({"topic": "t"}, {"offset": 1}, "t", 0, b"k", b"v", 5, (), None, None)
    moved: ConnectRecord = made.with_topic("u")
    assert (made, type(made)) == (plain, SourceRecord)
    assert (moved.topic, made.topic) == ("u", "t")
    with pytest.raises(AttributeError):
        moved.topic = "w"  # type: ignore[misc]


@pytest.mark.parametrize(("own", "waits"), [({}, False), ({"transforms.x.type": "Length"}, True)])
def test_only_transformations_of_ones_own_may_wait(own: Mapping[str, str], waits: bool) -> None:
    """A task that waits needs a thread for itself."""
    note = {f"transforms.x.{key}": value for key, value in NOTE.items()}
    assert transforms({"transforms": "x", **note, **READS_JSON, **own}).may_wait is waits
