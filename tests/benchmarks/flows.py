"""What is copied in the benchmarks."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from connect.protocol.compression import CODEC_NAMES
from tests.benchmarks.payloads import PayloadKind
from tests.support.flows.transformed import READ_JSON

__all__ = ["FLOWS", "QUICK_FLOWS", "Flow", "Writing"]

RENAMED = "-renamed"
"""The end of the names that transformations give."""
BATCH_BYTES = 64 * 1024
FAR_BATCH_BYTES = 256 * 1024
TEN_RECORDS_BYTES = 6 * 1024
"""A batch of ten of the JSON events."""


_SMT = "org.apache.kafka.connect.transforms."
_JSON = MappingProxyType(
    {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
)
_ROUTER = MappingProxyType(
    {
        "transforms.name.type": f"{_SMT}RegexRouter",
        "transforms.name.regex": r"(.*)",
        "transforms.name.replacement": f"$1{RENAMED}",
    }
)
_NAME = MappingProxyType({"transforms": "name", **_ROUTER})
_HEADER_AND_NAME = MappingProxyType(
    {
        "transforms": "note, name",
        "transforms.note.type": f"{_SMT}InsertHeader",
        "transforms.note.header": "by",
        "transforms.note.value.literal": "mirror",
        **_ROUTER,
        # Without it Java can only write headers of bytes.
        "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    }
)
_FIELDS = MappingProxyType(
    {
        "transforms": "full, wrap, from, name",
        "transforms.full.type": f"{_SMT}Filter",
        "transforms.full.predicate": "null",
        "transforms.wrap.type": f"{_SMT}HoistField$Value",
        "transforms.wrap.field": "event",
        "transforms.from.type": f"{_SMT}InsertField$Value",
        "transforms.from.static.field": "from",
        "transforms.from.static.value": "A",
        "transforms.from.timestamp.field": "at",
        **_ROUTER,
        "predicates": "null",
        "predicates.null.type": f"{_SMT}predicates.RecordIsTombstone",
        **_JSON,
    }
)
_MASKED = MappingProxyType(
    {
        "transforms": "mask, less, from, name",
        "transforms.mask.type": f"{_SMT}MaskField$Value",
        "transforms.mask.fields": "session,agent",
        "transforms.mask.replacement": "-",
        "transforms.less.type": f"{_SMT}ReplaceField$Value",
        "transforms.less.exclude": "note",
        "transforms.less.renames": "event:kind",
        "transforms.from.type": f"{_SMT}InsertField$Value",
        "transforms.from.static.field": "from",
        "transforms.from.static.value": "A",
        "transforms.from.timestamp.field": "at",
        **_ROUTER,
        **_JSON,
        **{f"mirror.transforms.{key}": value for key, value in _JSON.items()},
    }
)
_READ_IN_JAVA = MappingProxyType(
    {"transforms": f"read, {_MASKED['transforms']}", "transforms.read.type": READ_JSON.stem}
)


_NONE: Mapping[str, str] = MappingProxyType({})
_APPEND_TIME = MappingProxyType({"message.timestamp.type": "LogAppendTime"})
_COMPACT = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        # The active segment is not compacted.
        "segment.bytes": "4194304",
    }
)
# Otherwise the target's broker compacts the copy while it is compared.
_KEPT_WHOLE = MappingProxyType({"{source}->target.config.properties.exclude": ".*"})
_READ_COMMITTED = MappingProxyType({"{source}.consumer.isolation.level": "read_committed"})
_TO_LZ4 = MappingProxyType({"target.producer.compression.type": "lz4"})


class Writing(enum.Enum):
    """How a source topic is written."""

    BATCHES = "the same batches again and again"
    COMPACTED = "each batch once, and then compacted by the broker"
    TRANSACTIONS = "in transactions, some of which are aborted"


@dataclass(frozen=True, slots=True)
class Flow:
    """One topic to copy. `batch_bytes` None: one record in each batch. `goal`: "shallow" and
    "small" have goals for rate and CPU, "not slower" only that one, "none" none."""

    name: str
    words: str
    kind: PayloadKind
    codec: str
    batch_bytes: int | None
    partitions: int
    records: int
    quick_records: int
    goal: Literal["shallow", "small", "not slower", "none"]
    plain: bool = False
    """Whether mirrors run with what users get: nothing is switched off."""
    far: bool = False
    """Whether the source is behind a link with a long way (`arena.FAR_S`)."""
    transforms: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """Properties of the flow `A->B`, without its name before them."""
    java_transforms: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """Those that Java's MirrorMaker 2 has in place of the same of `transforms`, or besides."""
    new_values: bool = False
    """Whether `transforms` change values, so that the copy is only counted."""
    writing: Writing = Writing.BATCHES
    topic_configs: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """Of the source topic."""
    properties: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """Of all systems; they replace a system's own. `{source}` stands for the source's alias."""

    @property
    def appended(self) -> bool:
        """Whether the source's broker sets the timestamps."""
        return self.topic_configs is _APPEND_TIME

    @property
    def codec_number(self) -> int:
        return CODEC_NAMES.index(self.codec)


FLOWS = {
    flow.name: flow
    for flow in (
        Flow(
            "json",
            "JSON, 64 KB batches, uncompressed",
            "json", "none", BATCH_BYTES, 4, 2_000_000, 400_000, "shallow",
        ),
        Flow(
            "json-lz4",
            "JSON, 64 KB batches, lz4",
            "json", "lz4", BATCH_BYTES, 4, 2_000_000, 400_000, "shallow",
        ),
        Flow(
            "json-zstd",
            "JSON, 64 KB batches, zstd",
            "json", "zstd", BATCH_BYTES, 4, 2_000_000, 400_000, "shallow",
        ),
        Flow(
            "random",
            "1,000 random bytes, 64 KB batches, uncompressed",
            "random", "none", BATCH_BYTES, 4, 1_000_000, 200_000, "shallow",
        ),
        Flow(
            "one-record",
            "JSON, one record per batch, uncompressed",
            "json", "none", None, 4, 600_000, 100_000, "small",
        ),
        Flow(
            "one-record-lz4",
            "JSON, one record per batch, lz4",
            "json", "lz4", None, 4, 600_000, 100_000, "small",
        ),
        Flow(
            "ten-records",
            "JSON, ten records per batch, uncompressed",
            "json", "none", TEN_RECORDS_BYTES, 4, 1_000_000, 200_000, "small",
        ),
        Flow(
            "ten-records-lz4",
            "JSON, ten records per batch, lz4",
            "json", "lz4", TEN_RECORDS_BYTES, 4, 1_000_000, 200_000, "small",
        ),
        Flow(
            "partitions",
            "JSON, 64 KB batches, uncompressed, 1,000 partitions (created before)",
            "json", "none", BATCH_BYTES, 1_000, 2_000_000, 400_000, "not slower",
        ),
        Flow(
            "defaults",
            "JSON, 64 KB batches, lz4; mm2.properties as users have it",
            "json", "lz4", BATCH_BYTES, 4, 3_000_000, 400_000, "none", plain=True,
        ),
        Flow(
            "transforms",
            "JSON, 64 KB batches, lz4; a header inserted and the topic renamed by transformations",
            "json", "lz4", BATCH_BYTES, 4, 1_000_000, 200_000, "not slower",
            transforms=_HEADER_AND_NAME,
        ),
        Flow(
            "fields",
            "JSON, 64 KB batches, lz4; no tombstones, values with two more fields written as JSON",
            "json", "lz4", BATCH_BYTES, 4, 600_000, 200_000, "not slower",
            transforms=_FIELDS, new_values=True,
        ),
        Flow(
            "mask",
            "JSON, 64 KB batches, lz4; values read as JSON, fields masked, dropped, renamed and "
            "inserted, written as JSON",
            "json", "lz4", BATCH_BYTES, 4, 400_000, 100_000, "not slower",
            transforms=_MASKED, java_transforms=_READ_IN_JAVA, new_values=True,
        ),
        Flow(
            "rename",
            "JSON, 64 KB batches, lz4; the topic renamed by RegexRouter",
            "json", "lz4", BATCH_BYTES, 4, 2_000_000, 400_000, "not slower",
            transforms=_NAME,
        ),
        Flow(
            "append-time",
            "JSON, 64 KB batches, lz4; timestamps set by the source's broker (LogAppendTime)",
            "json", "lz4", BATCH_BYTES, 4, 1_000_000, 200_000, "not slower",
            topic_configs=_APPEND_TIME,
        ),
        Flow(
            "compacted",
            "JSON, 64 KB batches, lz4; a compacted topic, most of whose records are gone",
            "json", "lz4", BATCH_BYTES, 4, 1_000_000, 200_000, "not slower",
            writing=Writing.COMPACTED, topic_configs=_COMPACT, properties=_KEPT_WHOLE,
        ),
        Flow(
            "recompressed",
            "JSON, 64 KB batches, zstd; written as lz4",
            "json", "zstd", BATCH_BYTES, 4, 1_000_000, 200_000, "not slower",
            properties=_TO_LZ4,
        ),
        Flow(
            "aborted",
            "JSON, lz4, read committed; transactions, one of ten of which is aborted",
            "json", "lz4", BATCH_BYTES, 4, 1_000_000, 200_000, "not slower",
            writing=Writing.TRANSACTIONS, properties=_READ_COMMITTED,
        ),
        Flow(
            "link",
            "JSON, 256 KB batches, one partition, over a link of 100 ms",
            "json", "none", FAR_BATCH_BYTES, 1, 2_000_000, 200_000, "none", far=True,
        ),
    )
}  # fmt: skip

QUICK_FLOWS = ("json", "one-record")
