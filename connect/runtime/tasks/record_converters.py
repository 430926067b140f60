"""The key, value and header converters of one task."""

from __future__ import annotations

from dataclasses import dataclass

from connect.data.converters.base import Converter

__all__ = ["RecordConverters"]


@dataclass(frozen=True, slots=True)
class RecordConverters:
    """The converters of key, value and headers, with their class names in configs."""

    key: Converter
    value: Converter
    header: Converter
    key_class: str
    value_class: str
    header_class: str
