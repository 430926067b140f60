"""Types of property values, and conversions between text and values.

The rules are those of Kafka's ConfigDef (4.3.1), as observed: text is trimmed of characters up to
U+0020; a blank LIST is empty, and its elements are separated by commas with optional white space;
numbers are decimal with an optional sign.
"""

from __future__ import annotations

import enum
import re

from connect.config.secrets import remember_secret
from connect.errors import ConfigError

__all__ = [
    "ConfigScalar",
    "ConfigType",
    "SecretStr",
    "format_value",
    "invalid_value",
    "parse_value",
]

HIDDEN = "[hidden]"
_SHOWN = 1_000
"""How many characters of a wrong value its error shows."""

_JAVA_TRIM = "".join(chr(code) for code in range(0x21))
_BLANKS = " \t\n\x0b\f\r"
"""What Java's lists may have around commas. A regular expression that splits there would take the
square of the length of a text of blanks."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)


class ConfigType(enum.Enum):
    """The type of a key's value. The names are Java's, as in REST responses."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


# The size in bits of Java's signed integers.
_INTEGER_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


class SecretStr:
    """A secret that is always printed as `[hidden]`. `reveal()` returns the text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret itself, for a client that must send it."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretStr) and other._text == self._text

    def __hash__(self) -> int:
        return hash(("SecretStr", self._text))


ConfigScalar = bool | int | float | str | tuple[str, ...] | SecretStr | None
"""A parsed value: LIST is a tuple, CLASS the class name as text, PASSWORD a `SecretStr`."""


def invalid_value(key: str, value: object, reason: str = "") -> ConfigError:
    """Return the error for an invalid value, with Java's text, which users search for."""
    shown = format_value(value)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}... ({len(shown)} characters)"
    message = f"Invalid value {shown} for configuration {key}"
    return ConfigError(f"{message}: {reason}" if reason else message, key=key, value=shown)


def parse_value(key: str, text: str | None, kind: ConfigType) -> ConfigScalar:
    """Parse `text` as a value of type `kind`. None stays None. Raises ConfigError with the key."""
    if text is None:
        return None
    trimmed = text.strip(_JAVA_TRIM)
    if kind in (ConfigType.STRING, ConfigType.CLASS):
        return trimmed
    if kind is ConfigType.PASSWORD:
        # Whatever the key is called, no log is to show it.
        remember_secret(trimmed)
        return SecretStr(trimmed)
    if kind is ConfigType.LIST:
        return tuple(part.strip(_BLANKS) for part in trimmed.split(",")) if trimmed else ()
    if kind is ConfigType.BOOLEAN:
        return _parse_boolean(key, text, trimmed)
    if kind is ConfigType.DOUBLE:
        return _parse_double(key, text, trimmed)
    return _parse_integer(key, text, trimmed, kind)


def _parse_boolean(key: str, text: str, trimmed: str) -> bool:
    lowered = trimmed.lower()
    if lowered not in ("true", "false"):
        raise invalid_value(key, text, "Expected value to be either true or false")
    return lowered == "true"


def _parse_integer(key: str, text: str, trimmed: str, kind: ConfigType) -> int:
    limit = 1 << (_INTEGER_BITS[kind] - 1)
    # Any 64-bit number fits into twenty characters, so a longer one is refused without parsing.
    if _INTEGER.fullmatch(trimmed) and len(trimmed.lstrip("+-0")) <= 20:
        number = int(trimmed)
        if -limit <= number < limit:
            return number
    raise invalid_value(key, text, f"Not a number of type {kind.value}")


def _parse_double(key: str, text: str, trimmed: str) -> float:
    if not _DOUBLE.fullmatch(trimmed):
        raise invalid_value(key, text, "Not a number of type DOUBLE")
    special = trimmed.lstrip("+-")
    if special in ("NaN", "Infinity"):
        return float(trimmed)
    return float(trimmed.rstrip("fFdD"))


def format_value(value: object) -> str:
    """Return the text that parses to this value; a secret is `[hidden]`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ",".join(str(item) for item in value)
    return str(value)
