"""Texts that whoever may validate a config, or produce a record, chooses: none takes long to read.

A regular expression whose quantifiers give back what they took needs the square of a text's length,
or more, and lets no other thread of the worker run meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from connect.clients.security.jaas import parse_jaas
from connect.clients.security.key_stores import _pem_blocks
from connect.config.providers import ConfigProviders
from connect.config.secrets import remember_properties
from connect.config.types import ConfigType, parse_value
from connect.data.java_numbers import parse_decimal, parse_double
from connect.data.values import parse
from connect.errors import ConnectError
from connect.runtime.plugins.versions import VersionRange

CHARACTERS = 100_000
AT_MOST_S = 2.0
"""Each takes milliseconds; by the expressions of before, from ten seconds to years."""


def _resolve(text: str) -> None:
    ConfigProviders({}).resolve({"any": text})


def _remember(text: str) -> None:
    # Its password is too short to stay in this process as a known secret.
    remember_properties({"sasl.jaas.config": f"LoginModule required {text} password=y;"})


def _number(text: str) -> None:
    parse_value("any", text, ConfigType.DOUBLE)


def _list(text: str) -> None:
    parse_value("any", text, ConfigType.LIST)


@pytest.mark.parametrize(
    ("read", "begin", "repeated", "end"),
    [
        (_resolve, "", "${:", ""),
        (_resolve, "${", ":", ""),
        (_resolve, "", "${", ""),
        (_remember, "", "passw", ""),
        (_remember, "", "a", ""),
        (_list, "a", " ", "b"),
        (_number, "", "1", "x"),
        (VersionRange.parse, "(", " ", ""),
        (VersionRange.parse, "(,", " ", ""),
        (parse_jaas, "", "/* ", ""),
        (_pem_blocks, "", "-----BEGIN A-----", ""),
        (parse_decimal, "", "1", "x"),
        (parse_double, "", "1", "x"),
        (parse, "", "1", "x"),
        (parse, "", "[", ""),
        (parse, "", "{", ""),
        (parse, "", '{"a":', ""),
        (parse, "", "[{", ""),
    ],
)
def test_a_long_text_is_read_soon(
    read: Callable[[str], object], begin: str, repeated: str, end: str
) -> None:
    text = f"{begin}{repeated * (CHARACTERS // len(repeated))}{end}"
    started = time.thread_time()
    with suppress(ConnectError, RecursionError):
        read(text)
    assert time.thread_time() - started < AT_MOST_S
