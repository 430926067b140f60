"""Java's logical types: decimals, dates, times of day and timestamps, based on plain types.

A `Date`, `Time` or `Timestamp` is an aware `datetime.datetime` in UTC, as it is a java.util.Date in
Java. A `Date` has only the day, and a `Time` only the time of day (on 1970-01-01). The resolution
is one millisecond. A `Decimal` is a `decimal.Decimal`; its scale is in the schema. Pure functions.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Final

from connect.data.java_numbers import narrow, parse_integer
from connect.data.schema import Schema, Type
from connect.data.schema_builder import SchemaBuilder
from connect.errors import DataError

__all__ = [
    "DATE",
    "DATE_SCHEMA",
    "DECIMAL",
    "MS_PER_DAY",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_SCHEMA",
    "TIME_SCHEMA",
    "date_from_days",
    "days_of_date",
    "decimal_bytes",
    "decimal_from_bytes",
    "decimal_schema",
    "from_ms",
    "ms_of_time",
    "scale_of",
    "time_from_ms",
    "to_ms",
]

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"

MS_PER_DAY: Final = 24 * 60 * 60 * 1000

DATE_SCHEMA: Final = SchemaBuilder(Type.INT32).name(DATE).version(1).build()
TIME_SCHEMA: Final = SchemaBuilder(Type.INT32).name(TIME).version(1).build()
TIMESTAMP_SCHEMA: Final = SchemaBuilder(Type.INT64).name(TIMESTAMP).version(1).build()

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def decimal_schema(scale: int) -> Schema:
    """Return a schema for decimals with this many digits after the point."""
    builder = SchemaBuilder(Type.BYTES).name(DECIMAL).parameters({"scale": str(scale)})
    return builder.version(1).build()


def to_ms(value: datetime.datetime) -> int:
    """Return milliseconds since 1970, rounded down. A time without a zone counts as UTC."""
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    return (value - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime.datetime:
    """Return the instant this many ms after 1970. Raises `DataError` beyond the years 1 to 9999."""
    try:
        return _EPOCH + ms * _MILLISECOND
    except OverflowError as error:
        raise DataError(
            f"The instant {ms} ms after 1970 is not between the years 1 and 9999"
        ) from error


def days_of_date(value: datetime.datetime) -> int:
    """Return the days since 1970 of a `Date`. Raises `DataError` if it has a time of day."""
    ms = to_ms(value)
    if ms % MS_PER_DAY:
        raise DataError(
            "Kafka Connect Date type should not have any time fields set to non-zero values."
        )
    return narrow(ms // MS_PER_DAY, 32)


def date_from_days(days: int) -> datetime.datetime:
    return from_ms(days * MS_PER_DAY)


def ms_of_time(value: datetime.datetime) -> int:
    """Return the milliseconds of the day of a `Time`. Raises `DataError` if it has another day."""
    ms = to_ms(value)
    if not 0 <= ms <= MS_PER_DAY:
        raise DataError(
            "Kafka Connect Time type should not have any date fields set to non-zero values."
        )
    return ms


def time_from_ms(ms: int) -> datetime.datetime:
    if not 0 <= ms <= MS_PER_DAY:
        raise DataError(
            "Time values must use number of milliseconds greater than 0 and less than 86400000"
        )
    return from_ms(ms)


def scale_of(schema: Schema) -> int:
    """Return the scale of a decimal schema. Raises `DataError` if it is missing or invalid."""
    text = (schema.parameters or {}).get("scale")
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    scale = parse_integer(text, 32)
    if scale is None:
        raise DataError("Invalid scale parameter found in Decimal schema: ")
    return scale


def decimal_bytes(schema: Schema, value: decimal.Decimal) -> bytes:
    """Return the unscaled number as big-endian two's complement of minimal length."""
    scale = scale_of(schema)
    if value.as_tuple().exponent != -scale:
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. Schema has scale"
            f" {scale}, value has scale {_scale_text(value)}."
        )
    unscaled = int(value.scaleb(scale, _EXACT))
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def _scale_text(value: decimal.Decimal) -> str:
    exponent = value.as_tuple().exponent
    return str(-exponent) if isinstance(exponent, int) else str(exponent)


def decimal_from_bytes(schema: Schema, data: bytes) -> decimal.Decimal:
    if not data:
        raise DataError("Zero length BigInteger")
    unscaled = int.from_bytes(data, "big", signed=True)
    return decimal.Decimal(unscaled).scaleb(-scale_of(schema), _EXACT)
