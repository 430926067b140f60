"""Validators of parsed values, used by `ConfigKey`s.

A validator returns the value, perhaps normalised, or raises ConfigError with key, value and valid
values. It has no state and may be used from any thread. `describe()` is for the reference tables.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from connect.config.java_regex import JavaRegexError, compile_java_regex
from connect.config.types import ConfigScalar, invalid_value
from connect.errors import ConfigError

__all__ = [
    "AllOf",
    "JavaPattern",
    "NonEmptyString",
    "NonNull",
    "OneOf",
    "OrNull",
    "PrintableName",
    "Range",
    "UniqueAliases",
    "ValidList",
    "Validator",
]

log = logging.getLogger(__name__)


class Validator(Protocol):
    """Validates a parsed value."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        """Return the value to use. Raises ConfigError if `value` is invalid."""

    def describe(self) -> str:
        """Return a short description of the valid values."""


@dataclass(frozen=True, slots=True)
class Range:
    """Validates a number between inclusive bounds; a bound of None is open."""

    minimum: float | None = None
    maximum: float | None = None

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if not isinstance(value, int | float):
            raise invalid_value(key, value, "Value must be non-null")
        if self.minimum is not None and value < self.minimum:
            raise invalid_value(key, value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise invalid_value(key, value, f"Value must be no more than {self.maximum}")
        return value

    def describe(self) -> str:
        low = "" if self.minimum is None else str(self.minimum)
        high = "" if self.maximum is None else str(self.maximum)
        return f"[{low},...,{high}]" if high else f"[{low},...]"


@dataclass(frozen=True, slots=True)
class NonEmptyString:
    """Validates that a string is not empty; null is valid with `allow_null`."""

    allow_null: bool = True

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if value == "" or (value is None and not self.allow_null):
            raise invalid_value(key, value, "String must be non-empty")
        return value

    def describe(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class NonNull:
    """Validates that a value is not null."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if value is None:
            raise invalid_value(key, value, "entry must be non null")
        return value

    def describe(self) -> str:
        return "non-null"


@dataclass(frozen=True, slots=True)
class PrintableName:
    """Validates a name: not empty, and without control characters (C0, DEL and C1).

    Null is valid here: a required key reports a missing name.
    """

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if value is None:
            return None
        if not isinstance(value, str) or value == "":
            raise invalid_value(key, value, "String may not be empty")
        control = [str(ord(char)) for char in value if _is_control(char)]
        if control:
            shown = "".join("?" if _is_control(char) else char for char in value)
            raise invalid_value(
                key,
                shown,
                "String may not contain control sequences but had the following ASCII chars: "
                + ", ".join(control),
            )
        return value

    def describe(self) -> str:
        return "non-empty string without ISO control characters"


def _is_control(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f"


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """Validates a Java regular expression."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        try:
            compile_java_regex(str(value))
        except JavaRegexError as error:
            raise invalid_value(key, value, f"Invalid regex: {error}") from error
        return value

    def describe(self) -> str:
        return "valid regex"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Validates that a string is one of a set. `ignore_case` keeps the user's spelling."""

    allowed: tuple[str, ...]
    ignore_case: bool = False

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        options = {option.upper() for option in self.allowed} if self.ignore_case else self.allowed
        if isinstance(value, str) and (value.upper() if self.ignore_case else value) in options:
            return value
        note = " (case insensitive)" if self.ignore_case else ""
        raise invalid_value(key, value, f"String must be one of{note}: {', '.join(self.allowed)}")

    def describe(self) -> str:
        note = "(case insensitive) " if self.ignore_case else ""
        return f"{note}[{', '.join(self.allowed)}]"


@dataclass(frozen=True, slots=True)
class ValidList:
    """Validates a list without empty elements. Drops duplicates with a warning, as in Kafka 4.

    An empty `allowed` permits any element. `allow_empty` permits an empty list.
    """

    allowed: tuple[str, ...] = ()
    allow_empty: bool = True
    allow_null: bool = False

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if value is None:
            if self.allow_null:
                return None
            raise ConfigError(f"Configuration '{key}' values must not be null.", key=key)
        assert isinstance(value, tuple)
        if not value and not self.allow_empty:
            valid = ", ".join(self.allowed) or "any non-empty value"
            raise ConfigError(
                f"Configuration '{key}' must not be empty. Valid values include: {valid}",
                key=key,
                value="",
            )
        for element in value:
            self._check_element(key, element)
        unique = tuple(dict.fromkeys(value))
        if len(unique) != len(value):
            log.warning(
                "Configuration key %s contains duplicates, which are ignored; using %s.",
                key,
                ",".join(unique),
            )
        return unique

    def _check_element(self, key: str, element: str) -> None:
        if not element:
            raise ConfigError(
                f"Configuration '{key}' values must not be empty.", key=key, value=element
            )
        if self.allowed and element not in self.allowed:
            raise invalid_value(key, element, f"String must be one of: {', '.join(self.allowed)}")

    def describe(self) -> str:
        if self.allowed:
            return f"[{', '.join(self.allowed)}]"
        return "any list" if self.allow_empty else "non-empty list"


@dataclass(frozen=True, slots=True)
class UniqueAliases:
    """Validates a list of unique aliases of one kind ("transformation", "group", ...)."""

    kind: str

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if not isinstance(value, tuple):
            raise invalid_value(key, value, "entry must be non null")
        if len(set(value)) != len(value):
            shown = f"[{', '.join(value)}]"
            raise invalid_value(key, shown, "Duplicate alias provided.")
        return value

    def describe(self) -> str:
        return f"unique {self.kind} aliases"


@dataclass(frozen=True, slots=True)
class OrNull:
    """Permits null, or values that another validator permits."""

    inner: Validator

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        return None if value is None else self.inner.check(key, value)

    def describe(self) -> str:
        return self.inner.describe()


class AllOf:
    """Applies several validators in order."""

    __slots__ = ("_validators",)

    def __init__(self, validators: Sequence[Validator]) -> None:
        self._validators = tuple(validators)

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        for validator in self._validators:
            value = validator.check(key, value)
        return value

    def describe(self) -> str:
        return ", ".join(validator.describe() for validator in self._validators)
