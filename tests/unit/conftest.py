"""What all unit tests have in common."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from connect.config import secrets
from connect.log_fields import without_log_fields


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process remembers its secrets. Those of one test, such as "secret", are not to be hidden
    in the texts of the next."""
    monkeypatch.setattr(secrets, "_known", {})
    monkeypatch.setattr(secrets, "_pattern", None)


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Programs set up the log of the whole process, and tasks that a test starts on its own thread
    add fields to its lines: each test gets the log as it was."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, logging.root.manager.disable
    with without_log_fields():
        yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.disable(disabled)
