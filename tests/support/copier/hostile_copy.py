"""A copier between two brokers of which one misbehaves, and the ways to misbehave."""

from __future__ import annotations

import struct
from collections.abc import Callable

from connect.protocol.compression import ZSTD
from connect.protocol.records import Record
from tests.support.copier.copying import CopyRun
from tests.support.copier.hostile_broker import Answer, Fault, HostileBroker, fetch_body
from tests.support.records.batches import encode_batch
from tests.support.waiting import wait_until

__all__ = [
    "ANY_ANSWER",
    "COUNT",
    "FETCHES",
    "KEY",
    "LOG",
    "MIB",
    "PRODUCES",
    "TIMEOUT_S",
    "Broken",
    "HostileCopy",
    "body",
    "records",
    "setting",
    "survives",
]

KEY = ("t", 0)
COUNT = 60
TIMEOUT_S = 30.0
REQUEST_MS = 500
MIB = 1024 * 1024


def batch(first: int, count: int = 10, last: int | None = None) -> bytes:
    records = [Record(first + n, 1_000 + n, b"k", b"%d" % (first + n)) for n in range(count)]
    # Such batches are not merged (`small_batches`), so each is sent on its own.
    return encode_batch(records, base_offset=first, codec=ZSTD, last_offset_delta=last)


LOG = tuple(batch(first) for first in range(0, COUNT, 10))


def patched(data: bytes, at: int, layout: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(layout, changed, at, value)
    return bytes(changed)


class Broken:
    """A fault that lasts until it is mended."""

    def __init__(self, api: int, change: Callable[[Answer], None], *, after: int = 0) -> None:
        self._api = api
        self._change = change
        self._after = after
        self.mended = False
        self.met = 0

    def __call__(self, answer: Answer) -> None:
        if answer.api == self._api and answer.number > self._after and not self.mended:
            self.met += 1
            self._change(answer)


def body(change: Callable[[bytes], bytes]) -> Fault:
    def fault(answer: Answer) -> None:
        answer.body = change(answer.body)

    return fault


def setting(name: str, value: object) -> Fault:
    return lambda answer: setattr(answer, name, value)


def records(*batches: bytes, high_watermark: int = COUNT, **lies: int) -> Fault:
    """Fetches are answered with these batches, whatever was asked for."""
    return body(lambda _: fetch_body("t", b"".join(batches), high_watermark, **lies))


ANY_ANSWER = {
    "cut off": setting("cut", 6),
    "closed": setting("cut", 0),
    "two gigabytes": setting("size", 2**31 - 1),
    "as much as is believed": setting("size", 100 * MIB),
    "negative size": setting("size", -1),
    "no room for an id": setting("size", 3),
    "another's correlation id": setting("correlation", -1),
    "empty": body(lambda _: b""),
    "noise": body(lambda data: b"\xff" * len(data)),
    "zeros": body(lambda data: bytes(len(data))),
    "drip": setting("drip_s", 0.05),
    "silence": setting("silent", True),
}
# The header of a fetch answer about partition 0 of "t" ends at 25; then 30 bytes, 8 and records.
FETCHES = {
    "records cut off": records(LOG[0], size=2**31 - 1),
    "fewer records": body(lambda data: data[:-7]),
    "endless array": body(lambda data: patched(data, 10, ">i", 2**31 - 1)),
    "negative array": body(lambda data: patched(data, 10, ">i", -5)),
    "endless aborted": records(LOG[0], aborted=2**31 - 1),
    "batch longer than all": records(patched(LOG[0], 8, ">i", 2**31 - 1)),
    "batch of negative length": records(patched(LOG[0], 8, ">i", -100)),
    "batch of no length": records(patched(LOG[0], 8, ">i", 0)),
    "unknown magic": records(patched(LOG[0], 16, ">b", 9)),
    "wrong crc": records(patched(LOG[0], 17, ">i", 1)),
    "flipped bit": records(patched(LOG[0], 70, ">b", 77)),
    "more records than there are": records(batch(0, last=500)),
    "offsets from the beginning again": records(*LOG[:2], LOG[0]),
    "offsets far ahead": records(patched(LOG[0], 0, ">q", 2**62)),
    "negative offsets": records(patched(LOG[0], 0, ">q", -5)),
    "the last offset there is": records(patched(LOG[0], 0, ">q", 2**63 - 1)),
    "an unknown error": records(error=999),
    "another broker, for ever": records(preferred=1),
}
PRODUCES = {
    "no place": body(lambda data: patched(data, 17, ">q", -1)),
    "endless array of answers": body(lambda data: patched(data, 0, ">i", 2**31 - 1)),
    "another topic": body(lambda data: patched(data, 6, ">b", 0x75)),
    "an unknown refusal": body(lambda data: patched(data, 15, ">h", 999)),
}


class HostileCopy:
    """A copier between two brokers of which one misbehaves."""

    def __init__(self, source: Fault | None, target: Fault | None, position: int | None) -> None:
        self.source = HostileBroker(log=LOG, fault=source)
        self.target = HostileBroker(fault=target)
        self.run = CopyRun(
            self.source.servers, self.target.servers, timeout_ms=REQUEST_MS, buffer_bytes=8 * MIB
        )
        self.run.add("t", "t", 0, position)

    def written(self) -> list[int]:
        return [int(record.value or b"-1") for record in self.target.records]


def survives(
    *, source: Broken | None = None, target: Broken | None = None, position: int | None = 0
) -> None:
    """The fault shows, does no harm, and is got over."""
    line = HostileCopy(source, target, position)
    fault = source or target
    assert fault is not None
    with line.source, line.target, line.run:
        wait_until(lambda: fault.met > 0, TIMEOUT_S, "the fault to be met")
        wait_until(lambda: line.run.error("t") or fault.met > 2, TIMEOUT_S, "an error")
        assert line.written() == list(range(len(line.written())))
        fault.mended = True
        line.run.wait({KEY: COUNT}, TIMEOUT_S)
    assert line.written() == list(range(COUNT))
    assert line.run.mapping[KEY] == {n: n for n in range(COUNT)}
    assert line.run.order[KEY] == list(range(COUNT))
