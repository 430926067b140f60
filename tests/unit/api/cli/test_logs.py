"""The log as JSON, and the limit for repeated messages."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

import pytest

from api.cli.logs import configure_logging
from api.cli.output.log_repeats import FIRST, PERIOD_S, RepeatLimit, fields_of
from connect.config.secrets import remember
from connect.errors import ConfigError
from connect.log_fields import OwnedThread, with_log_fields
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

    with with_log_fields(task=3, connector="MirrorSourceConnector"):
        thread = OwnedThread(fail, "task-MirrorSourceConnector-3")
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
    assert failed["thread"] == "task-MirrorSourceConnector-3"
    assert "ValueError" in str(failed["exception"])
    assert waiting["flow"] == "A->B"
    assert "task" not in waiting


def test_the_thread_s_flow_counts_more_than_the_message_s(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(log_format="json")
    with with_log_fields(flow="A->B"):
        logging.getLogger("x").warning("B->A is the other way")
    (line,) = lines(capsys)
    assert line["flow"] == "A->B"


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
        self.fields: list[Mapping[str, str | int]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.fields.append(fields_of(record))


def test_equal_messages_of_two_flows_are_counted_apart_and_summed_up_as_theirs() -> None:
    kept, clock = Kept(), FakeClock()
    limit = RepeatLimit(kept, clock)

    def say(flow: str) -> None:
        with with_log_fields(flow=flow):
            limit.handle(logging.LogRecord("x", logging.WARNING, "", 0, "no leader", None, None))

    for flow in ("A->B", "B->A"):
        for _ in range(FIRST + 1):
            say(flow)
    assert len(kept.texts) == 2 * FIRST

    clock.advance(PERIOD_S)
    say("C->D")
    assert kept.texts[2 * FIRST :] == ["no leader (1 more times in 60 s)"] * 2 + ["no leader"]
    assert [each["flow"] for each in kept.fields[2 * FIRST :]] == ["A->B", "B->A", "C->D"]


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
