"""What is fuzzed: every decoder of bytes that others wrote.

A target takes bytes, and either does something with them or raises the error that its decoder
documents. Anything else is a finding. Its seeds are good input.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import (
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)
from kafka.protocol.producer import InitProducerIdResponse

from api.rest import bodies
from api.rest.json_text import MalformedBody
from connect.config.properties import parse_properties
from connect.data.converters.json import JsonConverter
from connect.errors import ConfigError, CorruptData
from connect.protocol import membership
from connect.protocol.batches import BatchHeader, crc_matches, read_headers
from connect.protocol.compression import LZ4, NONE, compress, decompress
from connect.protocol.fetch_by_id import FETCH_BY_ID_VERSION, parse_fetch_by_id
from connect.protocol.message_check import check_message
from connect.protocol.messages import parse_fetch, parse_produce
from connect.protocol.records import Record, iter_records, rebatch
from connect.protocol.small_batches import CannotMerge, merge_run, read_runs
from connect.runtime.errors import BadRequest
from connect.storage import config_records, offset_codec, status_records
from connect.storage.instance_id import InstanceId, State, TargetState
from connectors.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment, page_key, parse_page_key
from tests.support.copier.hostile_broker import HostileBroker, fetch_body
from tests.support.copier.hostile_copy import LOG
from tests.support.records.batches import encode_batch

__all__ = ["CORPUS", "TARGETS", "Target", "found", "seeds"]

CORPUS = Path(__file__).parent / "corpus"
"""One directory for each target: input that once was a finding."""

_GOLDEN = Path(__file__).parents[1] / "golden" / "record_batches.json"
_LIMIT = 1 << 20
_INT64 = range(-(1 << 63), 1 << 63)
_RESPONSES = (
    ApiVersionsResponse,
    FindCoordinatorResponse,
    InitProducerIdResponse,
    ListOffsetsResponse,
    MetadataResponse,
)


@dataclass(frozen=True)
class Target:
    """`run` raises one of `documented`, or nothing."""

    run: Callable[[bytes], object]
    documented: tuple[type[Exception], ...]
    seeds: Callable[[], Sequence[bytes]]


def found(target: Target, data: bytes) -> None:
    """Raises what is a finding."""
    try:
        target.run(data)
    except target.documented:
        return


def seeds(name: str) -> list[bytes]:
    """Good input, and all earlier findings."""
    earlier = sorted((CORPUS / name).glob("*")) if (CORPUS / name).is_dir() else []
    return [*TARGETS[name].seeds(), *(path.read_bytes() for path in earlier)]


def _batches(data: bytes) -> None:
    view = memoryview(bytearray(data))
    headers = read_headers(view)
    offsets = [h.base_offset for h in headers] + [h.next_offset for h in headers[-1:]]
    assert offsets == sorted(offsets)
    assert all(0 <= offset < 1 << 63 for offset in offsets)
    for run in read_runs(view, 0):
        if run.batches > 1:
            _merge(view, run)
    whole = [view[h.start : h.start + h.size] for h in headers]
    for header in headers:
        crc_matches(view, header)
    for made in rebatch(
        [batch for batch, h in zip(whole, headers, strict=True) if not h.attributes & 0x20],
        from_offset=0,
        codec=0,
        level=None,
        max_bytes=1 << 16,
        max_decompressed=_LIMIT,
    ):
        assert sum(count for _, count in made.runs) == made.records
    for batch in whole:
        for record in iter_records(batch, max_decompressed=_LIMIT):
            assert record.offset in _INT64
            assert record.timestamp in _INT64


def _small_batches() -> list[bytes]:
    """Runs that are merged."""
    records = [Record(n, n, b"%d" % n, b"value, value, value %d" % n) for n in range(6)]
    return [
        b"".join(encode_batch([each], base_offset=each.offset, codec=codec) for each in records)
        for codec in (NONE, LZ4)
    ]


def _merge(view: memoryview, run: BatchHeader) -> None:
    try:
        merged = merge_run(view, run, 1 << 16, run.attributes & 0x07, None)
    except (CannotMerge, CorruptData):
        return
    assert sum(made.records for made in merged) == run.records
    assert all(sum(count for _, count in made.runs) == made.records for made in merged)


def _fetch(data: bytes) -> None:
    response = parse_fetch(memoryview(data))
    assert sum(len(p.records) for p in response.partitions) <= len(data)


def _fetch_by_id(data: bytes) -> None:
    response = parse_fetch_by_id(memoryview(data), {bytes(16): "t"})
    assert sum(len(p.records) for p in response.partitions) <= len(data)


def _produce(data: bytes) -> None:
    parse_produce(memoryview(data))


def _response(data: bytes) -> None:
    """The first two bytes choose the message and its version."""
    if len(data) < 2:
        return
    response = _RESPONSES[data[0] % len(_RESPONSES)]
    version = data[1] % (response.max_version + 1)
    body = data[2:]
    flexible = response.flexible_version_q(version)
    check_message(response._struct, version, memoryview(body), flexible=flexible)
    if response is ApiVersionsResponse and body[:2] != b"\0\0":
        return
    response.decode(body, version=version)


def _decompress(data: bytes) -> None:
    if data:
        assert len(decompress(data[0] % 6, memoryview(data)[1:], limit=_LIMIT)) <= max(
            _LIMIT, len(data)
        )


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """A key and a value: the first two bytes are the key's length."""
    size = int.from_bytes(data[:2], "big")
    return data[2 : 2 + size], data[2 + size :]


def _joined(key: bytes, value: bytes) -> bytes:
    return struct.pack(">H", len(key)) + key + value


def _page(data: bytes) -> None:
    key, value = _cut(data)
    topic, partition, first = parse_page_key(key)
    assert page_key(topic, partition, first) == key[: len(page_key(topic, partition, first))]
    page = MapPage.decode(first, value)
    for segment in page.segments:
        assert segment.source + segment.length in _INT64
        assert segment.target + segment.length in _INT64
    assert MapPage.decode(page.first_source, page.encode()).segments == page.segments


def _formats(data: bytes) -> None:
    key, value = _cut(data)
    errors = 0
    for kind in (OffsetSync, Checkpoint, Heartbeat):
        try:
            made = kind.decode(key, value)
        except CorruptData:
            errors += 1
        else:
            assert type(made).decode(made.key(), made.value()) == made


def _config(data: bytes) -> None:
    config_records.decode_record(*_cut(data))


def _status(data: bytes) -> None:
    status_records.StatusTable().apply(*_cut(data))


def _offset(data: bytes) -> None:
    key, value = _cut(data)
    decoded = offset_codec.decode_key(key)
    assert decoded is None or isinstance(decoded[0], str)
    offset_codec.decode_value(value)


def _membership(data: bytes) -> None:
    for decode in (membership.decode_metadata, membership.decode_assignment):
        try:
            decode(data)
        except CorruptData:
            continue


def _properties(data: bytes) -> None:
    parse_properties(data.decode("iso-8859-1"))


def _json_values(data: bytes) -> None:
    """What is read as JSON, written, and read again is written alike."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, "value")
    written = converter.to_bytes("t", converter.from_bytes("t", data).value)
    if written is not None:
        assert converter.to_bytes("t", converter.from_bytes("t", written).value) == written


def _rest(data: bytes) -> None:
    for read in (
        bodies.create_request,
        bodies.required_string_map,
        bodies.task_configs,
        bodies.offset_entries,
    ):
        try:
            read(data)
        except (MalformedBody, BadRequest):
            continue


def _golden() -> list[bytes]:
    return [bytes.fromhex(entry["data"]) for entry in json.loads(_GOLDEN.read_text())]


def _good_responses() -> list[bytes]:
    broker = HostileBroker()
    broker._listener.close()
    broker._counts[22] = 1
    return [
        bytes([0, 3]) + broker._body(18, 3, b""),
        bytes([2, 1]) + broker._body(22, 1, b""),
        bytes([3, 5]) + broker._body(2, 5, b""),
        bytes([4, 8]) + broker._body(3, 8, b""),
        bytes([4, 9]) + broker._body(3, 9, b"")[1:],
    ]


def _good_config() -> list[bytes]:
    task = InstanceId("c", 0)
    created = config_records.SessionKey(b"secret", "HmacSHA256", 1)
    return [
        _joined(config_records.connector_key("c"), config_records.encode_config({"a": "b"})),
        _joined(config_records.task_key(task), config_records.encode_config({"a": "b"})),
        _joined(config_records.commit_key("c"), config_records.encode_task_commit(3)),
        _joined(
            config_records.target_state_key("c"),
            config_records.encode_target_state(TargetState.PAUSED),
        ),
        _joined(config_records.task_count_key("c"), config_records.encode_task_count(2)),
        _joined(config_records.session_key_key(), config_records.encode_session_key(created)),
        _joined(
            config_records.restart_key("c"),
            config_records.encode_restart_request(
                config_records.RestartRequest("c", only_failed=True, include_tasks=True)
            ),
        ),
        _joined(config_records.logger_key("x"), config_records.encode_logger_level("INFO")),
    ]


def _good_status() -> list[bytes]:
    status = status_records.InstanceStatus(State.RUNNING, "w:1", 3)
    topic = status_records.TopicStatus("t", "c", 0, 1)
    return [
        _joined(
            status_records.status_key(InstanceId(*name)),
            status_records.encode_status(status) or b"",
        )
        for name in (("c",), ("c", 0))
    ] + [_joined(status_records.topic_key("c", "t"), status_records.encode_topic_status(topic))]


def _good_page() -> list[bytes]:
    page = MapPage(7, [Segment(5, 3, 10), Segment(20, 13, 1)], 30)
    return [_joined(page_key("t", 0, 5), page.encode())]


def _good_formats() -> list[bytes]:
    made = (
        OffsetSync("t", 0, 5, 3),
        Checkpoint("g", "a.t", 0, 5, 3, "m"),
        Heartbeat("a", "b", 1),
    )
    return [_joined(each.key(), each.value()) for each in made]


def _good_fetches_by_id() -> list[bytes]:
    topic = FetchResponse.FetchableTopicResponse
    fetched = topic.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=60,
        last_stable_offset=60,
        log_start_offset=0,
        aborted_transactions=[topic.PartitionData.AbortedTransaction(7, 5)],
        preferred_read_replica=-1,
        records=b"".join(LOG),
    )
    made = FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=9,
        responses=[topic(topic_id=UUID(int=0), partitions=[fetched])],
    )
    return [b"\0" + bytes(made.encode(version=FETCH_BY_ID_VERSION))]


def _good_membership() -> list[bytes]:
    assigned = membership.Assignment(
        version=2,
        error=0,
        leader="m",
        leader_url="http://a:1/",
        config_offset=1,
        assigned=(("c", -1), ("c", 0)),
    )
    state = membership.WorkerState("http://a:1/", 1, assigned)
    return [membership.encode_metadata(state, 2), membership.encode_assignment(assigned, 2)]


_CORRUPT = (CorruptData,)
TARGETS: dict[str, Target] = {
    "batches": Target(_batches, _CORRUPT, lambda: [*_golden(), *LOG, *_small_batches()]),
    "fetch": Target(_fetch, _CORRUPT, lambda: [fetch_body("t", b"".join(LOG), 60, aborted=-1)]),
    "fetch by id": Target(_fetch_by_id, _CORRUPT, _good_fetches_by_id),
    "produce": Target(
        _produce,
        _CORRUPT,
        lambda: [struct.pack(">ih1sIihqqqihi", 1, 1, b"t", 1, 0, 0, 5, -1, 0, 0, -1, 0)],
    ),
    "responses": Target(_response, (CorruptData, UnicodeDecodeError), _good_responses),
    "compression": Target(
        _decompress,
        _CORRUPT,
        lambda: [bytes([n]) + bytes(compress(n, b"some data " * 30)) for n in range(5)],
    ),
    "map_pages": Target(_page, _CORRUPT, _good_page),
    "mirror_records": Target(_formats, (), _good_formats),
    "config_records": Target(_config, _CORRUPT, _good_config),
    "status_records": Target(_status, (), _good_status),
    "source_offsets": Target(
        _offset,
        _CORRUPT,
        lambda: [_joined(offset_codec.encode_key("c", {"p": 1}), b'{"offset":5}')],
    ),
    "json_values": Target(
        _json_values,
        _CORRUPT,
        lambda: [b'{"a":[1,-2.5e3,null,true,"\xc3\xa9\\n"],"b":{"c":12345678901234567890}}'],
    ),
    "membership": Target(_membership, (), _good_membership),
    "rest_bodies": Target(
        _rest,
        (),
        lambda: [
            b'{"name":"c","config":{"a":"b","n":1.50},"initial_state":"STOPPED"}',
            b'{"offsets":[{"partition":{"p":1},"offset":{"o":null}}]}',
            b'[{"a":"b"}]',
        ],
    ),
    "properties": Target(
        _properties, (ConfigError,), lambda: [b"a=b\\u00e4\n# c\nd \\\n  : e\n!f\n"]
    ),
}
