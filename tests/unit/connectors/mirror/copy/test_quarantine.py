"""Only the unreadable batch is put aside: copying goes on at the first record behind it."""

from __future__ import annotations

import pytest

from connect.protocol.batches import read_headers
from connect.protocol.record_codec import Record
from connectors.mirror.copy.batches.conversion import Unreadable
from connectors.mirror.copy.quarantine import offset_after
from tests.support.records.batches import encode_batch
from tests.support.records.record_sets import legacy_message, legacy_wrapper

END = 1_000


def some(first: int, count: int) -> list[Record]:
    return [Record(first + n, 1_000, None, b"v") for n in range(count)]


def batch(first: int, count: int) -> bytes:
    return encode_batch(some(first, count), base_offset=first)


def after_first(data: bytes, position: int) -> int | None:
    """Where copying goes on after the first batch of `data`, which cannot be read."""
    view = memoryview(data)
    headers = read_headers(view)
    return offset_after(view, Unreadable(position, "it is corrupt", headers[0]), headers, END)


@pytest.mark.parametrize(
    "following",
    [batch(20, 10), legacy_message(some(20, 1)[0], 1), legacy_wrapper(some(20, 10), 0),
     legacy_wrapper(some(20, 10), 1)],
    ids=["magic 2", "plain message", "wrapper of magic 0", "wrapper of magic 1"],
)  # fmt: skip
@pytest.mark.parametrize("bad", [batch(10, 5), legacy_wrapper(some(10, 5), 1)])
def test_it_goes_on_where_the_next_batch_begins(bad: bytes, following: bytes) -> None:
    assert after_first(bad + following, 12) == 20


def test_a_next_message_that_is_corrupt_cannot_say_where_it_begins() -> None:
    corrupt = bytearray(legacy_wrapper(some(20, 10), 1))
    corrupt[-1] ^= 1
    assert after_first(batch(10, 10) + corrupt, 10) is None


def test_a_next_message_that_begins_too_early_is_not_believed() -> None:
    assert after_first(batch(10, 10) + legacy_wrapper(some(5, 20), 1), 10) is None


def test_a_last_batch_says_itself_where_it_ends_if_it_has_no_gaps() -> None:
    assert after_first(batch(10, 10), 10) == 20
    assert after_first(batch(END - 5, 10), END - 5) is None, "beyond the partition's end"
    assert after_first(legacy_wrapper(some(10, 10), 1), 10) is None
    gap = encode_batch(some(10, 9), base_offset=10, last_offset_delta=30)
    assert after_first(gap, 10) is None
