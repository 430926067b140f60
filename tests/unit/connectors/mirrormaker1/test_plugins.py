"""Classes that people name in options."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.mirrormaker1.plugins import (
    HANDLERS,
    ConsumedRecord,
    MessageHandler,
    ProducedRecord,
    load_plugin,
)

HERE = "tests.unit.connectors.mirrormaker1.test_plugins"
BASE: Any = MessageHandler


class Plain(MessageHandler):
    def handle(self, record: ConsumedRecord) -> Iterable[ProducedRecord]:
        return ()


class Told(Plain):
    def __init__(self, text: str) -> None:
        self.text = text


def load(name: str, argument: str | None = None) -> MessageHandler:
    loaded: MessageHandler = load_plugin("--message.handler", name, argument, BASE, HANDLERS)
    return loaded


def test_a_class_is_made_with_its_argument_or_with_nothing() -> None:
    assert isinstance(load(f"{HERE}:Plain"), Plain)
    told = load(f"{HERE}:Told", "a=b")
    assert isinstance(told, Told)
    assert told.text == "a=b"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution whose entry points name a handler of this module, and a missing class."""
    info = tmp_path / "handlers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: handlers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{HANDLERS}]\nplain = {HERE}:Plain\nbroken = {HERE}:Missing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("installed")
def test_a_class_is_found_by_its_entry_point() -> None:
    assert isinstance(load("plain"), Plain)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "reason"), [("broken", "Missing"), ("other", "installed are: broken, plain")]
)
def test_an_entry_point_that_gives_no_class_is_refused_with_the_option(
    name: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=f"--message.handler.*{reason}"):
        load(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("com.example.Handler", "Java classes cannot be used: write the class in Python"),
        (f"{HERE}:Missing", "Missing"),
        ("no_such_module:Handler", "must be in PYTHONPATH"),
        ("builtins:dict", "not a subclass of"),
        (f"{HERE}:Told", "creating it failed"),
    ],
)
def test_what_cannot_be_a_handler_is_refused_with_the_option(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"--message.handler.*{reason}"):
        load(name)
