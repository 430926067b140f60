"""Paths to fields: a name (syntax V1), or names separated by dots (V2).

In V2 a name that contains dots is quoted with backticks. Inside the quotes, a backtick before a dot
or the end is escaped with a backslash.
"""

from __future__ import annotations

from connect.config.definition import ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.validators import OneOf
from connect.data.schema import Field, Schema
from connect.data.struct import Struct
from connect.data.transforms.base import require_map, require_struct
from connect.errors import ConfigError

__all__ = ["FieldPath", "field_syntax_key"]

_PURPOSE = "nested field access"


def field_syntax_key() -> ConfigKey:
    """Return the key that selects the path syntax."""
    return ConfigKey(
        "field.syntax.version",
        ConfigType.STRING,
        "V1",
        OneOf(("V1", "V2"), ignore_case=True),
        Importance.HIGH,
        "`V1`: a top-level field. `V2`: dots separate the names of nested fields; names that"
        " contain dots are quoted with backticks.",
    )


class FieldPath:
    """A path to one field. Immutable."""

    def __init__(self, text: str, config: ParsedConfig) -> None:
        """Parse a path. Raises `ConfigError` for an unclosed backtick."""
        self.text = text
        nested = config.string("field.syntax.version").upper() == "V2"
        self._steps = _steps(text) if nested else [text]

    def field(self, schema: Schema) -> Field | None:
        """Return the field in a schema, or None if it does not exist."""
        for step in self._steps[:-1]:
            field = schema.field(step)
            if field is None:
                return None
            schema = field.schema
        return schema.field(self._steps[-1])

    def of_struct(self, struct: Struct, *, with_default: bool) -> object:
        """Return the value in a struct, or None if it does not exist."""
        for step in self._steps[:-1]:
            if struct.schema.field(step) is None:
                return None
            inner = struct.get(step)
            if inner is None:
                return None
            struct = require_struct(inner, _PURPOSE)
        last = self._steps[-1]
        if struct.schema.field(last) is None:
            return None
        return struct.value_of(last, with_default=with_default)

    def of_map(self, value: dict[str, object]) -> object:
        """Return the value in a map, or None if it does not exist."""
        for step in self._steps[:-1]:
            inner = value.get(step)
            if inner is None:
                return None
            value = require_map(inner, _PURPOSE)
        return value.get(self._steps[-1])


def _steps(path: str) -> list[str]:
    if not path:
        raise ConfigError("Invalid value  for configuration field: the path is empty", key="field")
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            name, at = _in_backticks(path, at)
        else:
            dot = path.find(".", at)
            end = len(path) if dot < 0 else dot
            name, at = path[at:end], end + 1
        steps.append(name)
    if path.endswith("."):
        steps.append("")
    return steps


def _in_backticks(path: str, opening: int) -> tuple[str, int]:
    """Return the name quoted at `opening`, and the position of the next step."""
    name = ""
    start = at = opening + 1
    while True:
        at = path.find("`", at)
        escaped = at > 0 and path[at - 1] == "\\"
        if at < 0 or (escaped and at == len(path) - 1):
            raise ConfigError(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before"
                f" backtick at position {opening} to escape it",
                value=path,
            )
        if at == len(path) - 1:
            return name + path[start:at], at + 1
        if path[at + 1] != ".":
            at += 1
        elif escaped:
            name += path[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return name + path[start:at], at + 2
