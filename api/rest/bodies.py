"""Parses request bodies like Kafka Connect.

Scalars in configs become text as they were written (`1.50`, `true`). If a field is repeated, the
last one counts. Unknown fields are rejected. Invalid JSON gives status 500, as in Java, with a
message that says where the error is.
"""

from __future__ import annotations

from collections.abc import Mapping

from api.rest.json_text import MalformedBody, clean, object_of, parse_json, string_map, text_of
from api.rest.models import CreateConnectorRequest
from connect.plugin import OffsetValue
from connect.runtime.errors import BadRequest
from connect.runtime.rest_entities import OffsetEntry

__all__ = [
    "create_request",
    "offset_entries",
    "required_string_map",
    "task_configs",
]


def create_request(body: bytes) -> CreateConnectorRequest:
    """Parse the body of POST /connectors."""
    fields = object_of(parse_json(body), "the request body", ("name", "config", "initial_state"))
    config = fields.get("config")
    name, state = fields.get("name"), fields.get("initial_state")
    return CreateConnectorRequest(
        name=None if name is None else text_of(name, "name"),
        config=None if config is None else string_map(config, "config"),
        initial_state=None if state is None else text_of(state, "initial_state"),
    )


def required_string_map(body: bytes) -> dict[str, str | None]:
    """Parse a body that is an object of strings."""
    value = parse_json(body)
    if value is None:
        raise MalformedBody("The request body must be a JSON object")
    return string_map(value, "the request body")


def task_configs(body: bytes) -> list[dict[str, str]]:
    """Parse the body of the internal POST /connectors/{c}/tasks."""
    value = parse_json(body)
    if not isinstance(value, list):
        raise MalformedBody("The request body must be a JSON array of task configs")
    return [
        {
            key: text
            for key, text in string_map(item, f"task config {number}").items()
            if text is not None
        }
        for number, item in enumerate(value)
    ]


def offset_entries(body: bytes) -> list[OffsetEntry]:
    """Parse the body of PATCH /connectors/{c}/offsets. Numbers stay numbers."""
    value = parse_json(body, numbers_as_text=False)
    fields = object_of(value, "the request body", ("offsets",))
    offsets = fields.get("offsets")
    if not offsets and offsets in (None, []):
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(offsets, list):
        raise MalformedBody("offsets must be a JSON array")
    return [_offset_entry(entry) for entry in offsets]


def _offset_entry(value: object) -> OffsetEntry:
    fields = object_of(value, "an element of offsets", ("partition", "offset"))
    return OffsetEntry(
        _scalars(fields.get("partition"), "partition"), _scalars(fields.get("offset"), "offset")
    )


def _scalars(value: object, what: str) -> Mapping[str, OffsetValue] | None:
    if value is None:
        return None
    fields = object_of(value, what)
    for key, item in fields.items():
        if isinstance(item, dict | list):
            raise BadRequest(
                f"Invalid value for {key} in {what}: offsets can only contain strings, numbers, "
                "booleans and null"
            )
    return {
        clean(key): clean(item) if isinstance(item, str) else item for key, item in fields.items()
    }
