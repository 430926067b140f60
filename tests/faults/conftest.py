"""Ends a run of random faults, and of an operator's trial, with its table."""

from __future__ import annotations

import pytest

from tests.support.chaos.summary import ROWS, table
from tests.support.deployment import operator_trial


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ROWS:
        terminalreporter.section("random faults")
        terminalreporter.write_line(table(ROWS))
    if operator_trial.ROWS:
        terminalreporter.section("how soon trouble is named")
        terminalreporter.write_line(operator_trial.table())
