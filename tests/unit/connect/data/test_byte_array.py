"""The converter of mirroring changes nothing, and takes nothing but bytes."""

from __future__ import annotations

import pytest

from connect.data.converters.byte_array import ByteArrayConverter
from connect.data.schema import Type
from connect.data.schema_builder import OPTIONAL
from connect.errors import ConnectError


@pytest.mark.parametrize("data", [None, b"", b"\x00\xff"])
def test_bytes_and_null_pass_unchanged(data: bytes | None) -> None:
    converter = ByteArrayConverter()
    assert converter.to_bytes("t", data) == data
    assert converter.from_bytes("t", data) == (OPTIONAL[Type.BYTES], data)


def test_views_of_bytes_become_bytes() -> None:
    assert ByteArrayConverter().to_bytes("t", memoryview(b"abc")) == b"abc"


def test_anything_else_is_refused_with_the_topic_and_the_type() -> None:
    with pytest.raises(ConnectError, match=r"topic orders has a str"):
        ByteArrayConverter().to_bytes("orders", "text")
