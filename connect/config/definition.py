"""Declarations of config keys, from which parsing, validation and documentation derive.

A `ConfigDef` is an immutable, ordered set of `ConfigKey`s. `parse` returns a `ParsedConfig` with
typed getters; `validate` returns values and errors of every key for REST `PUT .../config/validate`;
`markdown_table` makes the reference page. Everything here may be used from any thread.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from connect.config.secrets import remember_secret
from connect.config.types import (
    ConfigScalar,
    ConfigType,
    SecretStr,
    format_value,
    invalid_value,
    parse_value,
)
from connect.config.validators import Validator, ValidList
from connect.errors import ConfigError

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigKey",
    "ConfigProblem",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "ParsedConfig",
    "Recommender",
    "Required",
    "SecretStr",
    "Width",
    "invalid_value",
]


class Required(enum.Enum):
    """The type of `REQUIRED`."""

    REQUIRED = "REQUIRED"


REQUIRED: Final = Required.REQUIRED
"""The default of a key that has none and must be set."""


class Importance(enum.Enum):
    """The importance of a key for most users."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(enum.Enum):
    """The width of the key's field on a form, for REST responses."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Recommender(Protocol):
    """Recommends values for a key, given the values of other keys."""

    def valid_values(self, props: Mapping[str, str | None]) -> tuple[str, ...]:
        """Return the recommended values, or an empty tuple if any value is possible."""

    def visible(self, props: Mapping[str, str | None]) -> bool:
        """Return whether the key is shown, given the values of other keys."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A config key. `default` is a parsed value (LIST: a tuple of strings), None, or REQUIRED.

    `order` is the key's position within its `group` on a form; -1 for none. The program sets
    `internal` keys, and the reference omits them.
    """

    name: str
    type: ConfigType
    default: ConfigScalar | Required = REQUIRED
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    doc: str = ""
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str | None = None
    dependents: tuple[str, ...] = ()
    internal: bool = False
    recommender: Recommender | None = None

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def prefixed(self, prefix: str) -> ConfigKey:
        """Return the same key with a prefix before its name.

        Errors of its validator and its label on a form omit the prefix, as in Java.
        """
        return replace(
            self,
            name=prefix + self.name,
            validator=self.validator and _Prefixed(prefix, self.validator),
            dependents=tuple(prefix + name for name in self.dependents),
            display_name=self.display_name or self.name,
        )

    def parse(self, props: Mapping[str, str | None]) -> ConfigScalar:
        """Return this key's value in `props`, or its default. Raises ConfigError."""
        if self.name in props:
            value = parse_value(self.name, props[self.name], self.type)
        elif self.default is REQUIRED:
            raise ConfigError(_missing(self.name), key=self.name)
        else:
            value = self.default
        return self.validator.check(self.name, value) if self.validator else value


@dataclass(frozen=True, slots=True)
class _Prefixed:
    """The validator of a key with a prefix."""

    prefix: str
    inner: Validator

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        return self.inner.check(key.removeprefix(self.prefix), value)

    def describe(self) -> str:
        return self.inner.describe()


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """A problem with one key's value that the key's own type and validator cannot find."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The result of validating one key.

    `value` is text as REST prints it. Secrets are hidden. It is None if the text cannot be parsed.
    """

    name: str
    value: str | None
    recommended_values: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    visible: bool = True


class ParsedConfig:
    """Typed values by key, and the properties they were parsed from. Immutable."""

    __slots__ = ("_values", "originals")

    def __init__(
        self, values: Mapping[str, ConfigScalar], originals: Mapping[str, str | None]
    ) -> None:
        self._values = dict(values)
        self.originals: Mapping[str, str] = {
            key: value for key, value in originals.items() if value is not None
        }

    def __repr__(self) -> str:
        return f"ParsedConfig({self._values!r})"

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def value(self, key: str) -> ConfigScalar:
        """Return the value of a declared key of any type. Raises KeyError for other keys."""
        return self._values[key]

    def string(self, key: str) -> str:
        value = self.optional_string(key)
        if value is None:
            raise invalid_value(key, None, "a value is needed")
        return value

    def optional_string(self, key: str) -> str | None:
        value = self._values[key]
        assert value is None or isinstance(value, str), key
        return value

    def integer(self, key: str) -> int:
        value = self.optional_integer(key)
        if value is None:
            raise invalid_value(key, None, "a number is needed")
        return value

    def optional_integer(self, key: str) -> int | None:
        value = self._values[key]
        assert value is None or (isinstance(value, int) and not isinstance(value, bool)), key
        return value

    def number(self, key: str) -> float:
        value = self._values[key]
        assert isinstance(value, int | float), key
        return float(value)

    def boolean(self, key: str) -> bool:
        value = self._values[key]
        assert isinstance(value, bool), key
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        value = self._values[key]
        assert value is None or isinstance(value, tuple), key
        return value or ()

    def secret(self, key: str) -> SecretStr | None:
        value = self._values[key]
        assert value is None or isinstance(value, SecretStr), key
        return value


@dataclass(frozen=True)
class ConfigDef:
    """An ordered set of keys. A later key replaces an earlier one with the same name."""

    keys: Mapping[str, ConfigKey] = field(default_factory=dict)

    def __init__(self, keys: Iterable[ConfigKey]) -> None:
        object.__setattr__(self, "keys", {key.name: key for key in keys})

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys.values())

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.keys)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the keys, each once, in the order of the keys."""
        return tuple(dict.fromkeys(key.group for key in self if key.group is not None))

    def on_a_form(self) -> list[ConfigKey]:
        """Return the keys in the order of a form.

        Keys are sorted by group and position in it, then required keys first, then by importance
        and name.
        """
        groups: list[str | None] = [None, *self.groups]
        rank = list(Importance)
        return sorted(
            self,
            key=lambda key: (
                groups.index(key.group),
                key.order,
                not key.required,
                rank.index(key.importance),
                key.name,
            ),
        )

    def extended(self, keys: Iterable[ConfigKey]) -> ConfigDef:
        """Return this definition with more keys."""
        return ConfigDef([*self, *keys])

    def parse(self, props: Mapping[str, str | None]) -> ParsedConfig:
        """Parse all values. Raises the first ConfigError, in the order of the keys."""
        return ParsedConfig({key.name: key.parse(props) for key in self}, props)

    def validate(self, props: Mapping[str, str | None]) -> list[ConfigValue]:
        """Return the value and the errors of every key, in the order of the keys."""
        return [_validated(key, props) for key in self]

    def remember_secrets(self, props: Mapping[str, str]) -> None:
        """Keep the values of PASSWORD keys out of the log, for code that reads `props` itself."""
        for key in self:
            if key.type is ConfigType.PASSWORD and key.name in props:
                remember_secret(props[key.name])

    def markdown_table(self) -> str:
        """Return a Markdown table of the keys for the reference page, the important ones first."""
        rank = list(Importance)
        shown = sorted(
            (key for key in self if not key.internal),
            key=lambda key: (not key.required, rank.index(key.importance), key.name),
        )
        rows = [
            "| key | type | default | valid | importance | meaning |",
            "|---|---|---|---|---|---|",
        ]
        rows += [_markdown_row(key) for key in shown]
        return "\n".join(rows) + "\n"


def _validated(key: ConfigKey, props: Mapping[str, str | None]) -> ConfigValue:
    """Validate one key. As in Java, a value that cannot be parsed is still validated as null."""
    errors: list[str] = []
    value: ConfigScalar = None
    if key.name in props:
        try:
            value = parse_value(key.name, props[key.name], key.type)
        except ConfigError as error:
            errors.append(str(error))
    elif key.default is REQUIRED:
        errors.append(_missing(key.name))
    else:
        value = key.default
    if key.validator is not None:
        try:
            _check(key.name, key.validator, value)
        except ConfigError as error:
            errors.append(str(error))
    recommended: tuple[str, ...] = ()
    visible = True
    if key.recommender is not None:
        recommended = key.recommender.valid_values(props)
        visible = key.recommender.visible(props)
    text = None if value is None else format_value(value)
    return ConfigValue(key.name, text, recommended, tuple(errors), visible)


def _check(name: str, validator: Validator, value: ConfigScalar) -> None:
    if isinstance(validator, _Prefixed):
        _check(name.removeprefix(validator.prefix), validator.inner, value)
        return
    # A client started with duplicates drops them with a warning; a validated config must have none.
    if isinstance(validator, ValidList) and isinstance(value, tuple) and _repeats(value):
        raise ConfigError(f"Configuration '{name}' values must not be duplicated.", key=name)
    validator.check(name, value)


def _repeats(values: tuple[str, ...]) -> bool:
    return len(set(values)) != len(values)


def _missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


def _markdown_row(key: ConfigKey) -> str:
    if key.default is REQUIRED:
        default = "required"
    elif key.default is None:
        default = "null"
    else:
        default = f"`{text}`" if (text := format_value(key.default)) else "empty"
    valid = key.validator.describe() if key.validator else ""
    cells = (
        f"`{key.name}`",
        key.type.value,
        default,
        valid,
        key.importance.value.lower(),
        " ".join(key.doc.split()),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
