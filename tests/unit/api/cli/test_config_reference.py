"""The reference page holds every key once, where it is set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from api.cli.config_reference import main, render
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.config.heartbeat import HEARTBEAT_CONFIG_DEF
from connectors.mirror.config.source import SOURCE_CONFIG_DEF


def test_every_key_of_every_connector_is_on_the_page() -> None:
    listed = set(re.findall(r"^\| `([^`]+)` \|", render(), re.MULTILINE))
    for definition in (SOURCE_CONFIG_DEF, CHECKPOINT_CONFIG_DEF, HEARTBEAT_CONFIG_DEF):
        assert set(definition.names) <= listed


def test_every_row_has_all_its_cells() -> None:
    rows = [line for line in render().splitlines() if line.startswith("| `")]
    assert len(rows) > 150
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}


def test_the_page_is_written_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "page.md")]) == 0
    assert main([]) == 0
    assert (tmp_path / "page.md").read_text() == capsys.readouterr().out
