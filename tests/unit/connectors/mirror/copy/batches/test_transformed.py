"""Whatever batches a log has and whatever the chain: the copies are the records that a plain loop
over the chain gives, in order, under the offsets of their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.data.record import ConnectRecord, SourceRecord
from connect.data.transforms.base import Transformation
from connect.errors import DataError, Interrupted
from connect.protocol.batches import read_headers
from connect.protocol.record_codec import Record
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import ErrorHandling, RecordErrors
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.tasks.record_converters import NamedConverters
from connect.runtime.transfer.record_transforms import make_record_transforms
from connectors.mirror.copy.batches.choice import CopyOptions
from connectors.mirror.copy.batches.conversion import Chosen, FetchedRecords
from connectors.mirror.copy.batches.outgoing import Outgoing
from connectors.mirror.copy.batches.transformed import ChangeRecord, transformed_batches
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from tests.support.records.batches import encode_batch
from tests.support.records.record_sets import SourceLog, copied_records, source_logs

SMT = "org.apache.kafka.connect.transforms."
PREDICATES = {
    "null": {"type": f"{SMT}predicates.RecordIsTombstone"},
    "marked": {"type": f"{SMT}predicates.HasHeaderKey", "name": "mark"},
    "other": {"type": f"{SMT}predicates.TopicNameMatches", "pattern": "other"},
}

BUDGET = MemoryBudget(1 << 30)
R = TypeVar("R", bound=ConnectRecord)
Plain = Callable[[Record], Record | None]


class Reverse(Transformation):
    """Reverses values; refuses those of four bytes."""

    def apply(self, record: R) -> R | None:
        value = record.value
        if not isinstance(value, bytes):
            return record
        if len(value) == 4:
            raise DataError("four bytes")
        return record.with_value(record.value_schema, value[::-1])


class Refused(Exception):
    """The reference refuses a record."""


def reversed_value(record: Record) -> Record:
    if record.value is not None and len(record.value) == 4:
        raise Refused
    return replace(record, value=None if record.value is None else record.value[::-1])


def marked(record: Record) -> Record:
    return replace(record, headers=(*record.headers, ("mark", b"1")))


def unmarked(record: Record) -> Record:
    return replace(record, headers=tuple(h for h in record.headers if h[0] != "mark"))


STAGES: Sequence[tuple[Mapping[str, str], Plain]] = [
    ({"type": f"{SMT}Filter", "predicate": "null"}, lambda r: None if r.value is None else r),
    (
        {"type": f"{SMT}Filter", "predicate": "marked", "negate": "true"},
        lambda r: r if any(name == "mark" for name, _ in r.headers) else None,
    ),
    (
        {"type": f"{SMT}Filter", "predicate": "other"},
        lambda r: r,
    ),
    (
        {
            "type": f"{SMT}InsertHeader",
            "header": "mark",
            "value.literal": "1",
            "predicate": "null",
            "negate": "true",
        },
        lambda r: r if r.value is None else marked(r),
    ),
    ({"type": f"{SMT}DropHeaders", "headers": "mark"}, unmarked),
    ({"type": "Reverse"}, reversed_value),
    ({"type": f"{SMT}RegexRouter", "regex": "t", "replacement": "u"}, lambda r: r),
]


@dataclass
class Chain:
    """A chain as the worker runs it, and the same as a plain function."""

    change: ChangeRecord
    stages: list[int]

    def plain(self, record: Record) -> Record | None:
        current: Record | None = record
        for stage in self.stages:
            if current is None:
                return None
            current = STAGES[stage][1](current)
        return current


def chain(stages: list[int], *, tolerate: bool = False) -> Chain:
    config = {"transforms": ",".join(f"s{n}" for n in range(len(stages)))}
    config["predicates"] = ",".join(PREDICATES)
    for n, stage in enumerate(stages):
        config |= {f"transforms.s{n}.{key}": value for key, value in STAGES[stage][0].items()}
    for alias, keys in PREDICATES.items():
        config |= {f"predicates.{alias}.{key}": value for key, value in keys.items()}
    plugins = PluginRegistry(discover=False)
    plugins.register(Reverse)
    errors: RecordErrors[SourceRecord] = RecordErrors(
        ErrorHandling(tolerate=tolerate), ErrorMetrics(), lambda record: record.topic
    )
    converters = NamedConverters(plugins)
    made = make_record_transforms(plugins, converters, config, "mirror.transforms.", errors)
    _, transform = made.of_topic("t", "t")
    change: ChangeRecord = lambda _, record: record  # noqa: E731
    if transform is not None:
        change = partial(transform.apply, 0)
    return Chain(change, stages)


def fetched(
    log: SourceLog, position: int, most: int, change: ChangeRecord, options: CopyOptions
) -> tuple[Chosen, int]:
    """One fetch, and where the next one begins."""
    data, aborted = log.fetch(position, most)
    copied = bytearray(data)
    view = memoryview(copied)
    headers = read_headers(view)
    buffer = FetchBuffer(BUDGET, copied)
    chosen = transformed_batches(
        FetchedRecords(view, headers, position, None, 300, aborted, options, buffer, BUDGET),
        change,
    )
    after = headers[-1].next_offset if chosen.unreadable is None else chosen.unreadable.position
    return chosen, max(position, after)


def wanted(log: SourceLog, made: Chain, options: CopyOptions) -> list[Record]:
    records = log.records(0, log.end, committed=options.read_committed)
    return [changed for changed in map(made.plain, records) if changed is not None]


_STAGES = st.lists(st.integers(0, len(STAGES) - 1), min_size=1, max_size=5)
_OPTIONS = st.builds(CopyOptions, read_committed=st.booleans(), codec=st.sampled_from([None, 0, 1]))


@given(
    log=source_logs(),
    stages=_STAGES.filter(lambda stages: 5 not in stages),
    options=_OPTIONS,
    most=st.integers(1, 4000),
)
def test_the_copies_are_what_the_chain_makes_of_each_record(
    log: SourceLog, stages: list[int], options: CopyOptions, most: int
) -> None:
    made = chain(stages)
    batches: list[Outgoing] = []
    position = dropped = 0
    while position < log.end:
        chosen, position = fetched(log, position, most, made.change, options)
        assert chosen.unreadable is None
        batches += chosen.batches
        dropped += chosen.dropped
    assert copied_records(batches) == wanted(log, made, options)
    everything = log.records(0, log.end, committed=options.read_committed)
    assert dropped == len(everything) - sum(batch.records for batch in batches)


@given(log=source_logs(), stages=_STAGES.filter(lambda stages: 5 in stages), options=_OPTIONS)
def test_the_copy_ends_before_the_first_record_that_fails_and_goes_on_there(
    log: SourceLog, stages: list[int], options: CopyOptions
) -> None:
    made = chain(stages)
    batches: list[Outgoing] = []
    position = 0
    while position < log.end:
        chosen, after = fetched(log, position, 1 << 30, made.change, options)
        batches += chosen.batches
        if chosen.unreadable is None:
            position = after
            continue
        failed = chosen.unreadable
        (source,) = log.records(failed.position, failed.position + 1, committed=False)
        with pytest.raises(Refused):
            made.plain(source)
        assert failed.record is not None
        assert (failed.record.key, failed.record.value) == (source.key, source.value)
        position = failed.position + 1  # as after the quarantine
    expected = []
    for record in log.records(0, log.end, committed=options.read_committed):
        try:
            expected.append(made.plain(record))
        except Refused:
            continue
    assert copied_records(batches) == [record for record in expected if record is not None]


def values(*items: bytes | None) -> bytes:
    records = [Record(n, 5, None, value) for n, value in enumerate(items)]
    return encode_batch(records, base_offset=0)


def copy_of(data: bytes, change: ChangeRecord) -> Chosen:
    copied = bytearray(data)
    view = memoryview(copied)
    buffer = FetchBuffer(BUDGET, copied)
    return transformed_batches(
        FetchedRecords(view, read_headers(view), 0, None, 0, (), CopyOptions(), buffer, BUDGET),
        change,
    )


def test_tolerated_failures_are_left_out() -> None:
    chosen = copy_of(values(b"one", b"four", b"two"), chain([5], tolerate=True).change)
    assert [record.value for record in copied_records(chosen.batches)] == [b"eno", b"owt"]
    assert (chosen.unreadable, chosen.dropped) == (None, 1)


def test_dropped_records_at_the_end_are_covered_by_the_last_batch() -> None:
    chosen = copy_of(values(b"one", None, b"two", None, None), chain([0]).change)
    (batch,) = chosen.batches
    assert (list(batch.runs), batch.resume) == ([(0, 1), (2, 1)], 5)


def test_a_stop_during_a_retry_ends_the_fetch() -> None:
    def stopped(_: int, record: object) -> None:
        raise Interrupted("the task stops")

    with pytest.raises(Interrupted):
        copy_of(values(b"one"), stopped)
