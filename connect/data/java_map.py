"""The iteration order of Java's HashMap.

Java's transformations put records without a schema into such maps, and converters write the entries
in iteration order. A record's partition depends on its key's bytes, and so on this order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from connect.data.compiled import native
from connect.data.java_numbers import narrow

__all__ = ["copied_order", "hash_order"]

K = TypeVar("K")
V = TypeVar("V")

# Java's default number of buckets, and the load factor at which it doubles.
_DEFAULT_BUCKETS = 16
_LOAD = 0.75
# For larger maps the order is not computed, as nobody is likely to depend on it.
_MOST = 1 << 16
_SHORT_NAME = 64
"""The longest names whose hash is remembered, which bounds memory."""


def hash_order(entries: Mapping[K, V], capacity: int = _DEFAULT_BUCKETS) -> dict[K, V]:
    """Return the entries in the order of a `new HashMap<>(capacity)` they were put into one by one.

    If the hash of a key is unknown (structs, floats), the order stays as it is.
    """
    ordered: dict[K, V] | None = None
    if native is not None:
        ordered = native.hash_order(entries, capacity)
    if ordered is None:
        ordered = {key: entries[key] for key in _order(entries, capacity)}
    return ordered


def _order(keys: Collection[K], capacity: int) -> Iterable[K]:
    """Return the keys in the order of the buckets; unchanged if the hash of a key is unknown."""
    if len(keys) < 2 or len(keys) > _MOST:
        return keys
    buckets = _power_of_two(capacity)
    while len(keys) > buckets * _LOAD:
        buckets *= 2
    places = {}
    for key in keys:
        hashed = _hash(key)
        if hashed is None:
            return keys
        places[key] = (hashed ^ hashed >> 16) & (buckets - 1)
    return sorted(keys, key=places.__getitem__)


def copied_order(source_size: int, entries: Mapping[K, V]) -> dict[K, V]:
    """Return the entries in the order of a `new HashMap<>(source)` to which others were added.

    The order is that of JDK 17. From JDK 19 on a copy of 3, 6, 12 ... entries without added ones
    may have half the buckets, and so another order.
    """
    return hash_order(entries, int(source_size / _LOAD + 1.0) if source_size else _DEFAULT_BUCKETS)


def _power_of_two(capacity: int) -> int:
    return 1 << (capacity - 1).bit_length() if capacity > 1 else 1


def _hash(key: object) -> int | None:
    """Return Java's hash code as an unsigned 32-bit number."""
    if key is None:
        return 0
    if isinstance(key, str):
        return _name_hash(key) if len(key) <= _SHORT_NAME else _string_hash(key)
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int):
        long = narrow(key, 64)
        return (long ^ (long >> 32)) & 0xFFFFFFFF
    return None


def _string_hash(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


# The names of one record come again in the next one.
_name_hash = lru_cache(maxsize=4096)(_string_hash)
