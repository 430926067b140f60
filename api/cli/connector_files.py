"""Reads files that define connectors for `connect-standalone` (KIP-980).

The format is detected from the content, not from the file name: a flat JSON object with a `name`; a
JSON object with `name`, `config` and optionally `initial_state`, as in POST /connectors; or Java
properties with a `name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from api.rest.json_text import (
    MalformedBody,
    object_of,
    parse_initial_state,
    parse_json,
    string_map,
    text_of,
)
from connect.config.properties import load_properties
from connect.errors import ConfigError, ConnectError
from connect.runtime.states import TargetState

__all__ = ["ConnectorFile", "read_connector_file"]


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """One connector to create. `config` includes its name."""

    name: str
    config: Mapping[str, str | None] = field(repr=False)
    initial_state: TargetState | None = None


def read_connector_file(location: str) -> ConnectorFile:
    """Read one connector file. Raises ConfigError with the file and the problem."""
    try:
        content = Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"Cannot read connector file {location}: {error.strerror}", value=location
        ) from error
    try:
        value = parse_json(content)
    except ConnectError as error:
        if content.lstrip().startswith(b"{"):
            raise ConfigError(
                f"Invalid connector file {location}: {error}", value=location
            ) from error
        return _from_properties(location)
    try:
        return _from_json(location, value)
    except MalformedBody as error:
        raise ConfigError(f"Invalid connector file {location}: {error}", value=location) from error


def _from_json(location: str, value: object) -> ConnectorFile:
    fields = object_of(value, "the file")
    if isinstance(fields.get("config"), dict):
        config = string_map(fields["config"], "config")
        name = text_of(fields.get("name"), "name")
        if config.setdefault("name", name) != name:
            raise ConfigError(
                f"Connector file {location}: the config's name {config['name']} differs from the "
                f"connector's name {name}; use the same name, or omit the one in the config",
                key="name",
            )
        state = fields.get("initial_state")
        return ConnectorFile(
            name,
            config,
            None if state is None else parse_initial_state(text_of(state, "initial_state")),
        )
    return _named(location, string_map(fields, "the file"))


def _from_properties(location: str) -> ConnectorFile:
    return _named(location, dict(load_properties(location)))


def _named(location: str, config: Mapping[str, str | None]) -> ConnectorFile:
    name = config.get("name")
    if name is None:
        raise ConfigError(
            f"Connector file {location} has no name; add one, in properties (name=...) or in "
            'JSON ({"name": "...", "config": {...}})',
            key="name",
        )
    return ConnectorFile(name, config)
