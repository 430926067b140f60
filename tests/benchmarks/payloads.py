"""The records of the benchmarks, in batches as producers send them, built once and sent often.

JSON events have about 545 bytes, like an order or a page view with some context; random values have
1,000 bytes that nothing can compress.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from connect.clock import SYSTEM_CLOCK
from connect.protocol.records import Record
from tests.support.records.batches import encode_batch

__all__ = ["JSON_BYTES", "RANDOM_BYTES", "Payload", "PayloadKind", "make_pairs", "make_payload"]

PayloadKind = Literal["json", "random"]

JSON_BYTES = 545
RANDOM_BYTES = 1_000
_SEED = 43
# Enough that no cache and no compression sees a batch twice in a while; few enough to build in
# seconds. Codecs work on one batch at a time, so repeating batches does not help them.
_DISTINCT_BATCHES = 64
# What a v2 record takes besides key and value: length, attributes, deltas, key and value length,
# header count.
_RECORD_OVERHEAD = 12

_CITIES = ("Antwerp", "Bergen", "Cork", "Dakar", "Essen", "Fukuoka", "Graz", "Hobart")
_KINDS = ("order_placed", "page_viewed", "basket_changed", "payment_settled")
_ITEMS = ("desk lamp", "raincoat", "notebook", "kettle", "headphones", "cycling gloves")
_AGENTS = ("Firefox/145.0 (X11; Linux x86_64)", "Chrome/142.0 (Windows NT 10.0; Win64)")


@dataclass(frozen=True, slots=True)
class Payload:
    """Batches with base offset 0 and no producer, all of `batch_records` records.

    `value_bytes`: mean size of a value. `batch_bytes`: mean size of a batch on the wire.
    """

    batches: tuple[bytes, ...]
    batch_records: int
    value_bytes: float

    @property
    def batch_bytes(self) -> float:
        return sum(map(len, self.batches)) / len(self.batches)


def _events(dice: random.Random) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of JSON events without end."""
    number = 0
    while True:
        number += 1
        customer = dice.randrange(100_000)
        body = {
            "event": dice.choice(_KINDS),
            "id": f"{dice.getrandbits(128):032x}",
            "number": number,
            "occurred_at": f"2026-11-21T{number // 3600 % 24:02}:{number // 60 % 60:02}"
            f":{number % 60:02}.{dice.randrange(1000):03}Z",
            "customer": {"id": customer, "city": dice.choice(_CITIES), "returning": True},
            "items": [
                {
                    "name": dice.choice(_ITEMS),
                    "sku": f"SKU-{dice.randrange(10**8):08}",
                    "quantity": dice.randrange(1, 5),
                    "price_cents": dice.randrange(199, 99_999),
                }
                for _ in range(2)
            ],
            "agent": dice.choice(_AGENTS),
            "session": f"{dice.getrandbits(96):024x}",
        }
        text = json.dumps(body)
        room = JSON_BYTES - len(text) - len(', "note": ""')
        body["note"] = ("left at the door, ring twice. " * 10)[: max(0, room)]
        yield b"%d" % customer, json.dumps(body).encode()


def _noise(dice: random.Random) -> Iterator[tuple[None, bytes]]:
    while True:
        yield None, dice.randbytes(RANDOM_BYTES)


def make_pairs(kind: PayloadKind) -> Iterator[tuple[bytes | None, bytes]]:
    """Key and value of one record after the other, without end."""
    dice = random.Random(_SEED)
    return _events(dice) if kind == "json" else _noise(dice)


def make_payload(
    kind: PayloadKind, codec: int, batch_bytes: int | None, distinct: int = _DISTINCT_BATCHES
) -> Payload:
    """`batch_bytes`: as a producer's batch.size, before compression; None for one record each.
    `distinct`: the number of different batches."""
    pairs = make_pairs(kind)
    count = 1
    if batch_bytes is not None:
        key, value = next(pairs)
        count = max(1, batch_bytes // (_RECORD_OVERHEAD + len(key or b"") + len(value)))
    now = SYSTEM_CLOCK.now_ms()
    batches: list[bytes] = []
    value_bytes = 0
    for _ in range(distinct):
        records = [
            Record(offset, now, key, value)
            for offset, (key, value) in enumerate(islice(pairs, count))
        ]
        value_bytes += sum(len(record.value or b"") for record in records)
        batches.append(encode_batch(records, base_offset=0, codec=codec))
    return Payload(tuple(batches), count, value_bytes / count / len(batches))
