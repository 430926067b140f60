"""A real Chromium for tests of the dashboard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from connect.runtime.thread_dumps import where
from tests.support.ui.browser import find_chromium, opened_browser
from tests.support.ui.dashboard_page import WAIT_MS, WIDE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    pytest.importorskip("playwright", reason="playwright is not installed")
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("there is no Chromium, and npm cannot get the packed one")
    with opened_browser(chromium) as opened:
        yield opened


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens `/ui` of a server; at the end no script may have failed and nothing may have been
    refused by the content security policy."""
    failures: list[str] = []
    with ExitStack() as stack:

        def open_(url: str, view: str = "", **options: Any) -> Page:
            context = browser.new_context(**{"viewport": WIDE, "locale": "en", **options})
            stack.callback(context.close)
            context.set_default_timeout(WAIT_MS)
            page = context.new_page()
            page.on("pageerror", lambda error: failures.append(str(error)))
            page.on("console", lambda said: _no_violation(said.text, failures))
            page.on("request", lambda asked: _own_host(asked.url, url, failures))
            requests = _Requests(page)
            page.goto(f"{url}ui#{view}")
            try:
                page.wait_for_selector("#flow-head h2")
            except Exception as error:
                hidden = page.evaluate("document.hidden")
                said = page.inner_text("body")
                raise AssertionError(
                    f"no flow was shown; requests: {requests.told()}; document.hidden: {hidden}; "
                    f"the page says: {said!r}; threads:\n{_threads()}"
                ) from error
            return page

        yield open_
    assert not failures


class _Requests:
    """The requests of a page, and what became of them."""

    def __init__(self, page: Page) -> None:
        self._ends: dict[str, str] = {}
        page.on("request", lambda asked: self._note(asked.url, "no answer"))
        page.on("response", lambda answer: self._note(answer.url, str(answer.status)))
        page.on("requestfailed", lambda asked: self._note(asked.url, f"failed: {asked.failure}"))

    def _note(self, url: str, end: str) -> None:
        self._ends[url] = end

    def told(self) -> str:
        return ", ".join(f"{url} {end}" for url, end in self._ends.items())


def _threads() -> str:
    """What each thread is doing. The server's are among them."""
    return "\n".join(f"{each.name}:\n{where(each)}" for each in threading.enumerate())


def _no_violation(text: str, failures: list[str]) -> None:
    if "Content Security" in text:
        failures.append(text)


def _own_host(asked: str, url: str, failures: list[str]) -> None:
    if not asked.startswith((url, "data:")):
        failures.append(f"asked {asked}")
