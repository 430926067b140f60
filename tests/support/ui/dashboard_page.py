"""What tests of the dashboard do with its page: wait, judge accessibility, take the pictures of the
docs, which `DASHBOARD_PICTURES=docs/img` writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.ui.browser import axe_script
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["PHONE", "WAIT_MS", "WIDE", "assert_accessible", "choose", "picture", "until"]

WAIT_MS = 60_000
WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


def choose(page: Page, tab: str) -> None:
    page.click(f"#tab-{tab}")
    page.wait_for_selector(f"#tab-{tab}[aria-selected=true]")


def until(page: Page, expression: str) -> None:
    """Wait for JavaScript to be true. The driver's own waiting needs `eval`, which the page
    forbids."""
    wait_until(lambda: bool(page.evaluate(expression)), WAIT_MS / 1000, expression)


def picture(page: Page, name: str, **options: Any) -> None:
    directory = os.environ.get("DASHBOARD_PICTURES")
    if directory:
        page.screenshot(path=Path(directory) / f"dashboard-{name}.png", **options)


def assert_accessible(page: Page) -> None:
    script = axe_script()
    if script is None:
        pytest.skip("npm cannot get axe-core")
    # As a debugger does, which the page's own policy does not forbid.
    page.evaluate(script)
    found = page.evaluate("axe.run()")
    assert [
        (each["id"], each["help"], [node["html"][:160] for node in each["nodes"]][:3])
        for each in found["violations"]
    ] == []
