from collections.abc import Callable, Mapping
from types import NotImplementedType
from typing import TypeVar

from connect.data.json_codec import JsonValue

K = TypeVar("K")
V = TypeVar("V")

def hash_order(entries: Mapping[K, V], capacity: int, /) -> dict[K, V] | None: ...
def read_json(data: bytes, /) -> JsonValue | NotImplementedType: ...
def write_json(value: object, number_text: Callable[[float], str], /) -> bytes | None: ...
