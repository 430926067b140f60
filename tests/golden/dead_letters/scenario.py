"""The records and the config whose dead letters are compared with Java's."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from confluent_kafka import Producer

from tests.support.records.reading import ReadRecord, read_partition

__all__ = ["RECORDS", "dead_letters", "produce", "sink_config"]

_KAFKA = "org.apache.kafka.connect."
_JSON = f"{_KAFKA}json.JsonConverter"
_FIRST_MS = 1_700_000_000_000
_HEADER = ("h", b'{"known": true}')

RECORDS: tuple[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]], ...] = (
    (b'"k0"', b'"good"', []),
    (b'"k1"', b'{"a": ', [_HEADER]),
    (b"{", b'"the key is not JSON"', [("__connect.errors.topic", b"an older one")]),
    (None, b'"the header is not JSON"', [("h", b"[1,")]),
    (b'"k4"', b'"no map to mask"', [("mask", b"1"), ("empty", None)]),
    (b'"k5"', b'"report"', [_HEADER]),
    (b"{", b"{", []),
    (b'"k7"', b'"good"', []),
)
"""Key, value and headers of each; their timestamps are a second apart."""


def sink_config(topic: str, dead_letter_topic: str) -> dict[str, str]:
    """Of the connector, but for its class and name."""
    config = {
        "tasks.max": "1",
        "topics": topic,
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
        "errors.deadletterqueue.topic.name": dead_letter_topic,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "transforms": "mask",
        "transforms.mask.type": f"{_KAFKA}transforms.MaskField$Value",
        "transforms.mask.fields": "secret",
        "transforms.mask.predicate": "marked",
        "predicates": "marked",
        "predicates.marked.type": f"{_KAFKA}transforms.predicates.HasHeaderKey",
        "predicates.marked.name": "mask",
    }
    for use in ("key", "value", "header"):
        config[f"{use}.converter"] = _JSON
        config[f"{use}.converter.schemas.enable"] = "false"
    return config


def produce(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number, (key, value, headers) in enumerate(RECORDS):
        producer.produce(
            topic, value, key, 0, timestamp=_FIRST_MS + number * 1000, headers=list(headers)
        )
    assert producer.flush(30) == 0


def dead_letters(servers: str, topic: str, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """What is in the queue, as JSON, in the order in which it was produced before. `names`: what
    stands for the names of this run. Of stack traces only the line that names the error."""
    letters = [_letter(record, names) for record in read_partition(servers, topic)]
    return sorted(letters, key=itemgetter("timestamp"))


def _letter(record: ReadRecord, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "timestamp": record.timestamp_ms,
        "headers": [[name, _header(name, data, names)] for name, data in record.headers],
    }


def _header(name: str, data: bytes | None, names: Mapping[str, str]) -> str | None:
    text = _text(data)
    if text is not None and name.endswith(".stacktrace"):
        return text.partition("\n")[0]
    return None if text is None else names.get(text, text)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
