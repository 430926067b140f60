"""Names that others chose do not change a terminal, a table or a log."""

from __future__ import annotations

import io
import logging

import pytest

from api.cli.logs import configure_logging
from api.cli.output.tables import table_printer

FORGED = "2026-01-01 00:00:00.000 INFO    all is well"
GROUP = f"readers\x1b[2J\r\tx\u2028\u202e\n{FORGED}"
SHOWN = f"readers\\x1b[2J\\r\\tx\\u2028\\u202e\\n{FORGED}"


def test_a_name_is_one_cell_of_one_line() -> None:
    out = io.StringIO()
    printer = table_printer(out, "tsv")
    printer.table("Groups", ("group", "lag"), [(GROUP, "1")])
    printer.line(f"{GROUP}: not committed")
    printer.heading(GROUP)
    lines = out.getvalue().splitlines()
    assert f"{SHOWN}\t1" in lines
    assert f"{SHOWN}: not committed" in lines
    assert f"== {SHOWN}" in lines


def test_a_table_on_a_terminal_has_no_escape_sequence_of_a_name() -> None:
    out = io.StringIO()
    printer = table_printer(out, "table")
    printer.table("Groups", ("group", "lag"), [(GROUP, "1")])
    printer.line(GROUP)
    printer.heading(GROUP)
    assert "\x1b" not in out.getvalue()
    assert "\r" not in out.getvalue()


def test_a_log_line_begins_only_with_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(log_format="text")
    log = logging.getLogger("x")
    log.warning("group %s is gone", GROUP)
    try:
        raise ValueError(GROUP)
    except ValueError:
        log.exception("it failed")
    text = capsys.readouterr().err
    assert not [line for line in text.split("\n") if line.startswith(FORGED)]
    assert len([line for line in text.splitlines() if not line.startswith("    ")]) == 2
    assert "\x1b" not in text
    assert "\r" not in text
