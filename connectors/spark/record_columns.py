"""The columns that all rows of Kafka records share, for Arrow batches that Spark gets.

Executors import this module, so PyArrow is imported by the method that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from connect.errors import CorruptData
from connect.protocol.record_codec import tail_fields

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RecordColumns"]

_ROWS = 8192
_BYTES = 8 * 1024 * 1024


class RecordColumns:
    """Collects `offset`, `key`, `value` and `headers` of the records of one Arrow batch."""

    def __init__(self, advice: str) -> None:
        """`advice`: what cannot hold a header key that is not UTF-8, and what to do, for the
        error."""
        self._advice = advice
        self._offsets: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[list[dict[str, Any]]] = []
        self._bytes = 0

    def add(self, offset: int, tail: bytes) -> None:
        """Add a record. `tail`: its bytes from the key's length on. Raises CorruptData."""
        key, value, headers = tail_fields(offset, tail)
        self._offsets.append(offset)
        self._keys.append(key)
        self._values.append(value)
        self._headers.append(
            [{"key": self._utf8(name, offset), "value": content} for name, content in headers]
        )
        self._bytes += len(tail)

    def _utf8(self, name: str, offset: int) -> str:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise CorruptData(
                f"the record at offset {offset} has a header whose key is not UTF-8, which "
                f"{self._advice}"
            ) from None
        return name

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def full(self) -> bool:
        """Whether the batch is large enough."""
        return len(self) >= _ROWS or self._bytes >= _BYTES

    def to_arrow(self, names: Iterable[str], others: Mapping[str, pa.Array[Any]]) -> pa.RecordBatch:
        """Return the rows with the columns of these names, in this order. `others`: those that are
        not collected here."""
        import pyarrow as pa

        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        columns = {
            "offset": pa.array(self._offsets, pa.int64()),
            "key": pa.array(self._keys, pa.binary()),
            "value": pa.array(self._values, pa.binary()),
            "headers": pa.array(self._headers, pa.list_(header)),
            **others,
        }
        return pa.RecordBatch.from_pydict({name: columns[name] for name in names})
