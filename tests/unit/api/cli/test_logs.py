"""The log as JSON, and the limit for repeated messages."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from api.cli.logs import configure_logging
from api.cli.output.log_repeats import FIRST, PERIOD_S, RepeatLimit
from connect.config.secrets import remember
from connect.errors import ConfigError
from tests.support.fake_clock import FakeClock


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_event_is_one_line_of_json_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(log_format="json")
    log = logging.getLogger("x.y")

    def fail() -> None:
        try:
            raise ValueError("two\nlines")
        except ValueError:
            log.exception("task %s failed", 3)

    thread = threading.Thread(target=fail, name="task-MirrorSourceConnector-3")
    thread.start()
    thread.join()
    log.warning("A->B: cannot start yet")
    failed, waiting = lines(capsys)
    assert (failed["level"], failed["logger"], failed["message"]) == (
        "ERROR",
        "x.y",
        "task 3 failed",
    )
    assert (failed["connector"], failed["task"]) == ("MirrorSourceConnector", 3)
    assert "ValueError" in str(failed["exception"])
    assert waiting["flow"] == "A->B"
    assert "task" not in waiting


def test_json_has_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    remember(["hunter2-hunter2"])
    configure_logging(log_format="json")
    logging.getLogger("x").warning("password is %s", "hunter2-hunter2")
    assert "hunter2" not in capsys.readouterr().err


def test_the_environment_chooses_the_format_and_a_wrong_one_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(environment={"CONNECT_LOG_FORMAT": "json"})
    logging.getLogger("x").warning("hello")
    assert lines(capsys)[0]["message"] == "hello"
    with pytest.raises(ConfigError, match="CONNECT_LOG_FORMAT: use text or json"):
        configure_logging(environment={"CONNECT_LOG_FORMAT": "xml"})


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def test_equal_messages_are_limited_and_counted() -> None:
    kept, clock = Kept(), FakeClock()
    limit = RepeatLimit(kept, clock)

    def say(text: str, level: int = logging.WARNING) -> None:
        limit.handle(logging.LogRecord("x", level, "", 0, text, None, None))

    for _ in range(10):
        say("again")
    say("other")
    assert kept.texts == ["again"] * FIRST + ["other"]

    clock.advance(PERIOD_S)
    say("other")
    assert kept.texts[FIRST + 1 :] == ["again (7 more times in 60 s)", "other"]
    for _ in range(10):
        say("detail", logging.DEBUG)
    assert kept.texts.count("detail") == 10
