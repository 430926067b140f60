"""Check a message's bytes against its schema before kafka-python decodes them.

kafka-python assumes that brokers send valid messages: it accepts a truncated string as a shorter
one, a negative array length as an empty array, null in fields that are not nullable, and varints of
any length, and it copies the rest of the message for every structure with tagged fields. The check
walks along the same schema first, in one pass, with time and memory bounded by the message's size.

Functions on buffers: safe from any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from connect.errors import CorruptData

__all__ = ["check_message"]

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
# An unsigned 32-bit varint has at most 5 bytes.
_VARINT_BYTES = 5

_MOST_TAG_COPIES = 1 << 30
"""The most bytes that decoding may copy because of tagged fields. Brokers send only a few of
them.
"""

_SIZES = {
    "int8": 1,
    "bool": 1,
    "bitfield": 4,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}

_Step = Callable[["_Walk", int], int]
"""Checks the field at a position, and returns the position after it."""


class _Walk:
    __slots__ = ("data", "end", "tag_sections")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.end = len(data)
        self.tag_sections = 0

    def past(self, position: int, size: int) -> int:
        after = position + size
        if after > self.end:
            raise CorruptData(
                f"field of {size} bytes at byte {position} exceeds the message of {self.end} bytes"
            )
        return after

    def varint(self, position: int) -> tuple[int, int]:
        value = 0
        for index in range(_VARINT_BYTES):
            self.past(position, index + 1)
            byte = self.data[position + index]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value, position + index + 1
        raise CorruptData(f"varint at byte {position} is longer than {_VARINT_BYTES} bytes")


def check_message(schema: Any, version: int, data: memoryview, *, flexible: bool) -> None:
    """Check the body of a message against a kafka-python schema (`StructField`).

    Raises `CorruptData`. Bytes after the body are ignored, as in Java.
    """
    key = (id(schema), version, flexible)
    step = _STEPS.get(key)
    if step is None:
        step = _STEPS[key] = _structure(schema, version, flexible)
    walk = _Walk(data)
    try:
        step(walk, 0)
    except struct.error as error:
        raise CorruptData(f"the message is cut off: {error}") from error
    if walk.tag_sections * walk.end > _MOST_TAG_COPIES:
        raise CorruptData(f"too many structures with tagged fields: {walk.tag_sections}")


# Compiled checks by schema, kept for good: there is one schema for each kind of message.
_STEPS: dict[tuple[int, int, bool], _Step] = {}


def _structure(field: Any, version: int, flexible: bool) -> _Step:
    steps = _merged([_field(each, version, flexible) for each in field.untagged_fields(version)])
    if flexible:
        known = {each.tag: each for each in _tagged(field, version)}
        tagged = {tag: _field(each, version, flexible) for tag, each in known.items()}
        steps.append(lambda walk, at: _check_tags(walk, at, tagged))

    def check(walk: _Walk, at: int) -> int:
        for step in steps:
            at = step(walk, at)
        return at

    return check


def _tagged(field: Any, version: int) -> list[Any]:
    every = field.fields.values() if isinstance(field.fields, dict) else field.fields
    return [each for each in every if each.for_version_q(version) and each.tagged_field_q(version)]


def _merged(parts: list[int | _Step]) -> list[_Step]:
    """Merge neighbouring fields of fixed size into one step."""
    steps: list[_Step] = []
    size = 0
    for part in parts:
        if isinstance(part, int):
            size += part
            continue
        if size:
            steps.append(_skip(size))
            size = 0
        steps.append(part)
    if size:
        steps.append(_skip(size))
    return steps


def _skip(size: int) -> _Step:
    return lambda walk, at: walk.past(at, size)


def _field(field: Any, version: int, flexible: bool) -> int | _Step:
    """Return the check of a field, or its size if the size is fixed."""
    nullable = field.nullable_for_version_q(version)
    if field.is_array():
        return _array(field, version, flexible, nullable)
    if field.is_struct():
        inner = _structure(field, version, flexible)
        return (lambda walk, at: _check_nullable(walk, at, inner)) if nullable else inner
    if field.type_str in _SIZES:
        return _SIZES[field.type_str]
    head = _INT16 if field.type_str == "string" else _INT32
    return lambda walk, at: _check_blob(walk, at, field.name, head, flexible, nullable)


def _array(field: Any, version: int, flexible: bool, nullable: bool) -> _Step:
    element = field.array_of
    inner: int | _Step
    if element.is_struct():
        inner = _structure(element, version, flexible)
    else:
        inner = _field(element, version, flexible)

    def check(walk: _Walk, at: int) -> int:
        count, at = _length(walk, at, _INT32, flexible)
        if count < 0:
            if count < -1 or not nullable:
                raise CorruptData(f"array {field.name} has the invalid length {count}")
            return at
        if isinstance(inner, int):
            return walk.past(at, count * inner)
        # Every element takes at least one byte.
        walk.past(at, count)
        for _ in range(count):
            at = inner(walk, at)
        return at

    return check


def _check_blob(
    walk: _Walk, at: int, name: str, head: struct.Struct, flexible: bool, nullable: bool
) -> int:
    length, at = _length(walk, at, head, flexible)
    if length >= 0:
        return walk.past(at, length)
    if length < -1 or not nullable:
        raise CorruptData(f"field {name} has the invalid length {length}")
    return at


def _length(walk: _Walk, at: int, head: struct.Struct, flexible: bool) -> tuple[int, int]:
    if flexible:
        value, at = walk.varint(at)
        return value - 1, at
    return head.unpack_from(walk.data, at)[0], at + head.size


def _check_nullable(walk: _Walk, at: int, inner: _Step) -> int:
    after = walk.past(at, 1)
    return after if walk.data[at] == 0xFF else inner(walk, after)


def _check_tags(walk: _Walk, at: int, known: dict[int, int | _Step]) -> int:
    count, at = walk.varint(at)
    if count:
        walk.tag_sections += 1
    for _ in range(count):
        tag, at = walk.varint(at)
        size, at = walk.varint(at)
        end = walk.past(at, size)
        step = known.get(tag)
        if step is not None:
            after = walk.past(at, step) if isinstance(step, int) else step(walk, at)
            if after != end:
                raise CorruptData(f"tagged field {tag} has {after - at} bytes, but claims {size}")
        at = end
    return at
