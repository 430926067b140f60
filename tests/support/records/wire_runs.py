"""Runs of batches for the audit, as a broker would answer with them."""

from __future__ import annotations

from collections.abc import Sequence

from connect.protocol.batches import read_headers
from connect.protocol.record_codec import Record
from connectors.mirror.compare.batch_runs import WireRun
from tests.support.records.batches import encode_batch

__all__ = ["EVERYTHING", "run_of", "runs_of"]

EVERYTHING = (0, 1 << 62)


def run_of(
    batches: Sequence[bytes],
    span: tuple[int, int] = EVERYTHING,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> WireRun:
    """One fetch answer with these batches, read for the offsets of `span`."""
    records = memoryview(b"".join(batches))
    return WireRun(records, read_headers(records), aborted, *span)


def runs_of(
    records: Sequence[Record], sizes: Sequence[int], answers: int = 3, producer: int = -1
) -> list[WireRun]:
    """Records in batches of these sizes, again and again; so many batches in an answer."""
    batches: list[bytes] = []
    at = 0
    while at < len(records):
        size = sizes[len(batches) % len(sizes)]
        piece = records[at : at + size]
        batches.append(encode_batch(piece, base_offset=piece[0].offset, producer_id=producer))
        at += size
    return [run_of(batches[at : at + answers]) for at in range(0, len(batches), answers)]
