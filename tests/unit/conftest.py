"""What all unit tests have in common."""

from __future__ import annotations

import pytest

from connect.config import secrets


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process remembers its secrets. Those of one test, such as "secret", are not to be hidden
    in the texts of the next."""
    monkeypatch.setattr(secrets, "_known", {})
    monkeypatch.setattr(secrets, "_search", secrets._NOTHING)
