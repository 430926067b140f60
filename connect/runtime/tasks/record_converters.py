"""The converters of one task."""

from __future__ import annotations

from dataclasses import dataclass

from connect.data.converters.base import Converter

__all__ = ["RecordConverters"]


@dataclass(frozen=True, slots=True)
class RecordConverters:
    """One for each part of a record, and the names that configs call their classes by."""

    key: Converter
    value: Converter
    header: Converter
    key_class: str
    value_class: str
    header_class: str
