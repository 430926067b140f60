"""Levels of loggers under Java's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from connect.runtime.errors import BadRequest, NotFound
from connect.runtime.loggers import Loggers
from connect.runtime.rest_entities import LoggerLevel
from tests.support.fake_clock import FakeClock

NAMES = ("levels", "levels.a", "levels.a.b", "levelsother")


@pytest.fixture
def loggers() -> Iterator[Loggers]:
    """All loggers get their levels back: some tests set that of the root, and so all others'."""
    for name in NAMES:
        logging.getLogger(name).setLevel(logging.NOTSET)
    before = {name: logging.getLogger(name).level for name in logging.root.manager.loggerDict}
    root = logging.root.level
    yield Loggers(FakeClock(now_ms=1000))
    for name in logging.root.manager.loggerDict:
        logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))
    logging.root.setLevel(root)


def test_a_logger_has_the_level_in_effect(loggers: Loggers) -> None:
    logging.getLogger("levels").setLevel(logging.WARNING)
    assert loggers.get("levels.a.b") == LoggerLevel("WARN", None)
    assert loggers.all()["levels.a"] == LoggerLevel("WARN", None)


def test_setting_a_level_affects_all_whose_names_begin_so(loggers: Loggers) -> None:
    assert loggers.set("levels.a", "debug") == ["levels.a", "levels.a.b"]
    assert loggers.get("levels.a.b") == LoggerLevel("DEBUG", 1000)
    assert logging.getLogger("levels.a").level == logging.DEBUG
    assert loggers.set("levels", "ERROR") == sorted(NAMES)


def test_a_logger_need_not_exist_to_get_a_level(loggers: Loggers) -> None:
    name = "unheard.of.before.this.test"
    with pytest.raises(NotFound, match=rf"Logger {name} not found\."):
        loggers.get(name)
    assert loggers.set(name, "TRACE") == [name]
    assert loggers.get(name) == LoggerLevel("TRACE", 1000)


@pytest.mark.parametrize("root", ["root", ""])
def test_the_root_is_above_all(loggers: Loggers, root: str) -> None:
    affected = loggers.set(root, "WARN")
    assert {"root", *NAMES} <= set(affected)
    assert logging.getLogger().level == logging.WARNING
    assert loggers.get(root) == LoggerLevel("WARN", 1000)


@pytest.mark.parametrize(
    ("java", "python"),
    [
        ("FATAL", logging.CRITICAL),
        ("WARN", logging.WARNING),
        ("TRACE", 5),
        ("ALL", 1),
    ],
)
def test_javas_names_of_levels(loggers: Loggers, java: str, python: int) -> None:
    loggers.set("levels", java)
    assert logging.getLogger("levels").level == python
    assert loggers.get("levels").level == java


def test_off_is_above_everything(loggers: Loggers) -> None:
    loggers.set("levels", "OFF")
    assert not logging.getLogger("levels").isEnabledFor(logging.CRITICAL)
    assert loggers.get("levels").level == "OFF"


def test_what_is_no_level(loggers: Loggers) -> None:
    with pytest.raises(NotFound, match="invalid log level 'zz'"):
        loggers.set("levels", "zz")


@pytest.mark.parametrize("name", ["a\nINFO forged line", "a\x1b[2J", "a" * 251])
def test_a_name_cannot_break_the_log(loggers: Loggers, name: str) -> None:
    with pytest.raises(BadRequest, match="printable and at most 250"):
        loggers.set(name, "DEBUG")
    assert name not in logging.root.manager.loggerDict
