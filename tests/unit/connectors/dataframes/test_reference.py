"""The reference page of the data source is the one that its schemas give."""

from __future__ import annotations

from pathlib import Path

from connectors.dataframes.reference import render

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "data-source.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), (
        "run: python -m connectors.dataframes.reference docs/reference/data-source.md"
    )
