"""Ends a run of random faults with its table."""

from __future__ import annotations

import pytest

from tests.support.chaos.summary import ROWS, table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ROWS:
        terminalreporter.section("random faults")
        terminalreporter.write_line(table(ROWS))
