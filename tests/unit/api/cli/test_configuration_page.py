"""The configuration reference in docs/ is the one that the declarations give."""

from __future__ import annotations

from pathlib import Path

from api.cli.config_reference import render

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "configuration-reference.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), (
        "run: python -m api.cli.config_reference docs/reference/configuration-reference.md"
    )
