"""Java's rules for numbers: text form, narrowing, and parsing.

Pure functions. Floats are written as `Double.toString` and `Float.toString` of JDK 19 and newer:
with the shortest digits that parse back to the number.
"""

from __future__ import annotations

import decimal
import math
import re
import struct
from collections.abc import Callable

__all__ = [
    "Float32",
    "double_text",
    "float_text",
    "integer_of",
    "narrow",
    "parse_decimal",
    "parse_double",
    "parse_integer",
]

# From this bound on (and below the other one) Java writes numbers in scientific notation.
_SCIENTIFIC_FROM = 1e7
_SCIENTIFIC_BELOW = 1e-3

# Digits of any script, as in Java. Whoever produces a record chooses these texts: a quantifier that
# gave back what it took would need the square of their length.
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_JAVA_TRIM = "".join(chr(code) for code in range(0x21))
_FLOAT = struct.Struct(">f")


class Float32(float):
    """A 32-bit float for values without a schema. Rounded when created; overflow gives infinity."""

    __slots__ = ()

    def __new__(cls, value: float) -> Float32:
        return super().__new__(cls, _rounded(value))

    def __str__(self) -> str:
        return float_text(self)


def _rounded(value: float) -> float:
    try:
        number: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return number


def double_text(value: float) -> str:
    """Return Java's text of a double."""
    special = _special(value)
    if special is not None:
        return special
    magnitude = abs(value)
    # Rounding the number itself to as many digits can miss them: 2**-24 lies halfway between two.
    shortest = decimal.Decimal(repr(float(magnitude))).normalize()
    places = len(shortest.as_tuple().digits) - 1
    return _text(value, _two_digits(magnitude, float) or f"{shortest:.{places}e}")


def float_text(value: float) -> str:
    """Return Java's text of a 32-bit float."""
    value = _rounded(value)
    special = _special(value)
    if special is not None:
        return special
    magnitude = abs(value)
    text = _two_digits(magnitude, _parse_float)
    # Nine digits distinguish all 32-bit floats.
    for places in range(2, 9):
        if text is not None:
            break
        candidate = f"{magnitude:.{places}e}"
        text = candidate if _parse_float(candidate) == magnitude else None
    return _text(value, text or f"{magnitude:.8e}")


def _parse_float(text: str) -> float:
    return _rounded(float(text))


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(float(value)) if value == 0.0 else None


def _two_digits(magnitude: float, parse: Callable[[str], float]) -> str | None:
    """Return the nearest number with two digits, because Java writes at least two."""
    text = f"{magnitude:.1e}"
    return text if parse(text) == magnitude else None


def _text(value: float, scientific: str) -> str:
    mantissa, _, power = scientific.partition("e")
    digits, exponent = mantissa.replace(".", "").rstrip("0"), int(power)
    sign = "-" if value < 0 else ""
    if _SCIENTIFIC_BELOW <= abs(value) < _SCIENTIFIC_FROM:
        return sign + _plain(digits, exponent)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{whole}.{digits[exponent + 1 :] or '0'}"


def narrow(value: int, bits: int) -> int:
    """Return the low bits as a signed integer, like Java's casts between integers."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def integer_of(value: float | decimal.Decimal, bits: int) -> int:
    """Return Java's `longValue()`, `intValue()`, `shortValue()` or `byteValue()` of any number.

    Doubles are clamped to the range of int and long, and NaN is 0. Decimals and integers lose high
    bits.
    """
    if isinstance(value, decimal.Decimal):
        return narrow(_whole(value), bits)
    if isinstance(value, int):
        return narrow(value, bits)
    if math.isnan(value):
        return 0
    width = 64 if bits == 64 else 32
    limit = 1 << (width - 1)
    if math.isinf(value):
        stopped = limit - 1 if value > 0 else -limit
    else:
        stopped = max(-limit, min(limit - 1, int(value)))
    return narrow(stopped, bits)


def _whole(value: decimal.Decimal) -> int:
    # 10**64 is a multiple of 2**64, so the low 64 bits of the number are 0.
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= 64:
        return 0
    return int(value)


def parse_decimal(text: str) -> decimal.Decimal | None:
    """Return `new BigDecimal(text)`, or None if Java throws."""
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None


def parse_integer(text: str, bits: int) -> int | None:
    """Return `Long.parseLong(text)` or that of a smaller type, or None if Java throws."""
    if not _INTEGER.fullmatch(text) or len(text.lstrip("+-0")) > 20:
        return None
    number = int(text)
    return number if -(1 << bits - 1) <= number < 1 << (bits - 1) else None


def parse_double(text: str) -> float | None:
    """Return `Double.parseDouble(text)` without hexadecimal numbers, or None if Java throws."""
    trimmed = text.strip(_JAVA_TRIM)
    if not _DOUBLE.fullmatch(trimmed):
        return None
    special = trimmed.lstrip("+-")
    if special in ("NaN", "Infinity"):
        return float(trimmed)
    return float(trimmed.rstrip("fFdD"))
