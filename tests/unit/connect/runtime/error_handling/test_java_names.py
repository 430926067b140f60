"""Errors have Java's names and layout where programs read them."""

from __future__ import annotations

import re

import pytest

from connect.errors import (
    BrokerUnavailable,
    ConfigError,
    ConnectError,
    CorruptData,
    DataError,
    TaskFailed,
)
from connect.runtime.error_handling.java_names import java_message, java_name, java_trace

CONNECT = "org.apache.kafka.connect.errors."


class OfAPlugin(DataError):
    """An error class of somebody else."""


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (DataError("x"), f"{CONNECT}DataException"),
        (CorruptData("x"), f"{CONNECT}DataException"),
        (ConfigError("x"), "org.apache.kafka.common.config.ConfigException"),
        (BrokerUnavailable("x"), f"{CONNECT}RetriableException"),
        (TaskFailed("x"), f"{CONNECT}ConnectException"),
        (ConnectError("x"), f"{CONNECT}ConnectException"),
        (KeyError("x"), "builtins.KeyError"),
        (OfAPlugin("x"), f"{__name__}.OfAPlugin"),
    ],
)
def test_ours_stand_for_javas_and_others_keep_their_names(error: Exception, name: str) -> None:
    assert java_name(error) == name


def test_an_error_without_text_has_no_message() -> None:
    assert java_message(ConnectError()) is None
    assert java_message(ConnectError("")) == ""


def test_a_trace_begins_with_the_error_then_its_calls_then_its_cause() -> None:
    def parse() -> None:
        try:
            raise ValueError("not a number")
        except ValueError as error:
            raise DataError("cannot be read") from error

    with pytest.raises(DataError) as raised:
        parse()
    file = r"\(test_java_names\.py:\d+\)"
    assert re.fullmatch(
        rf"org\.apache\.kafka\.connect\.errors\.DataException: cannot be read\n"
        rf"\tat parse{file}\n\tat test_a_trace\w+{file}\n"
        rf"Caused by: builtins\.ValueError: not a number\n\tat parse{file}\n",
        java_trace(raised.value),
    )


def test_a_trace_of_errors_that_cause_each_other_ends() -> None:
    first, second = ConnectError("a"), ConnectError("b")
    first.__cause__, second.__cause__ = second, first
    assert java_trace(first).count("\n") == 2
