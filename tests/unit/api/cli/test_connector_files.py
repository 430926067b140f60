"""Connector files of the standalone command, told apart by content (KIP-980)."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli.connector_files import ConnectorFile, read_connector_file
from connect.errors import ConfigError
from connect.runtime.states import TargetState


def read(tmp_path: Path, text: str, name: str = "c.txt") -> ConnectorFile:
    path = tmp_path / name
    path.write_text(text)
    return read_connector_file(str(path))


def test_properties(tmp_path: Path) -> None:
    found = read(tmp_path, "name = c\na\\:b=1\n", "c.json")

    assert found == ConnectorFile("c", {"name": "c", "a:b": "1"})


def test_a_flat_json_object(tmp_path: Path) -> None:
    found = read(tmp_path, '{"name":"c","tasks.max":2,"b":true,"n":null}', "c.properties")

    assert found == ConnectorFile("c", {"name": "c", "tasks.max": "2", "b": "true", "n": None})


def test_a_request_as_rest_takes_it(tmp_path: Path) -> None:
    text = '{"name":"c","config":{"a":1},"initial_state":"paused","more":[]}'

    assert read(tmp_path, text) == ConnectorFile("c", {"a": "1", "name": "c"}, TargetState.PAUSED)
    assert read(tmp_path, '{"name":"c","config":{"name":"c"}}') == ConnectorFile("c", {"name": "c"})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a=1\n", "no name"),
        ("", "must be an object"),
        ('{"a":"b"}', "no name"),
        ('{"name":"c","config":{"name":"d"}}', "d differs from the connector's name c"),
        ('{"config":{"a":"b"}}', "name"),
        ('{"name":"c","config":{},"initial_state":"x"}', "RUNNING, PAUSED, STOPPED"),
        ('{"name":"c", "a":', "not valid JSON"),
        ("[1]", "must be an object"),
        ('{"name":"c","a":{}}', "Invalid value for a"),
    ],
)
def test_files_that_describe_no_connector(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word) as caught:
        read(tmp_path, text)

    assert "c.txt" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.properties: No such file"):
        read_connector_file(str(tmp_path / "missing.properties"))
