"""The reference page holds every key once, where it is set."""

from __future__ import annotations

import re
from pathlib import Path

from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.config.heartbeat import HEARTBEAT_CONFIG_DEF
from connectors.mirror.config.source import SOURCE_CONFIG_DEF
from deploy.site.config_reference import render

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration-reference.md"


def test_every_key_of_every_connector_is_on_the_page() -> None:
    listed = set(re.findall(r"^\| `([^`]+)` \|", render(), re.MULTILINE))
    for definition in (SOURCE_CONFIG_DEF, CHECKPOINT_CONFIG_DEF, HEARTBEAT_CONFIG_DEF):
        assert set(definition.names) <= listed


def test_every_row_has_all_its_cells() -> None:
    rows = [line for line in render().splitlines() if line.startswith("| `")]
    assert len(rows) > 150
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), "run: python -m deploy.site"
