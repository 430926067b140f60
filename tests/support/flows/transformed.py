"""Transformations in the config of a mirrored flow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.producing import Record
from tests.support.records.topics import end_offsets, topic_names
from tests.support.waiting import wait_until

__all__ = [
    "JSON",
    "JSON_VALUES",
    "READ_JSON",
    "SMT",
    "TOMBSTONES_AND_TESTS",
    "events",
    "transforms",
    "wait_end",
]

SMT = "org.apache.kafka.connect.transforms."
JSON = "org.apache.kafka.connect.json.JsonConverter"
JSON_VALUES = {
    "A->B.mirror.transforms.value.converter": JSON,
    "A->B.mirror.transforms.value.converter.schemas.enable": "false",
}
READ_JSON = Path(__file__).with_name("ReadJson.java")
"""A transformation for Java's MirrorMaker 2: what `JSON_VALUES` does in ours."""

TOMBSTONES_AND_TESTS: Mapping[str, Mapping[str, str]] = {
    "dropnull": {"type": f"{SMT}Filter", "predicate": "null"},
    "droptest": {"type": f"{SMT}Filter", "predicate": "test"},
}
"""Leaves out tombstones and records with the header `test`. `transforms` adds the predicates."""

_PREDICATES: Mapping[str, Mapping[str, str]] = {
    "null": {"type": f"{SMT}predicates.RecordIsTombstone"},
    "test": {"type": f"{SMT}predicates.HasHeaderKey", "name": "test"},
}


def transforms(
    stages: Mapping[str, Mapping[str, str]],
    predicates: Mapping[str, Mapping[str, str]] | None = None,
    prefix: str = "A->B.",
) -> dict[str, str]:
    """The keys of a chain of these stages, by alias, after `prefix`. Predicates: also `null`
    and `test`."""
    known = {**_PREDICATES, **(predicates or {})}
    return {
        f"{prefix}transforms": ",".join(stages),
        f"{prefix}predicates": ",".join(known),
        **{
            f"{prefix}{section}.{alias}.{key}": value
            for section, named in (("transforms", stages), ("predicates", known))
            for alias, keys in named.items()
            for key, value in keys.items()
        },
    }


def events(count: int) -> list[Record]:
    """Records of which every third is a tombstone and every fifth has the header `test`."""
    return [
        Record(
            None if n % 3 == 0 else b"v%d" % n,
            b"k%d" % n,
            timestamp_ms=1_700_000_000_000 + n,
            headers=[("test", b"1")] if n % 5 == 0 else [("n", b"%d" % n)],
        )
        for n in range(count)
    ]


def wait_end(flow: MirroredFlow, remote: str, end: int, timeout_s: float = 90.0) -> None:
    """Until partition 0 of this topic of the target ends at `end`."""

    def reached() -> bool:
        servers = flow.target_servers
        return remote in topic_names(servers) and end_offsets(servers, remote).get(0, -1) >= end

    wait_until(reached, timeout_s, f"{remote} has {end} records")
