"""Reading .properties text as java.util.Properties does."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.config.properties import (
    load_properties,
    parse_properties,
    scan_properties,
)
from connect.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t=\f b  ", {"a": "b  "}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("A->B.enabled = true", {"A->B.enabled": "true"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\  b", {"a": "  b"}),
        ("# no\n! no\n\n a=1 # part of the value", {"a": "1 # part of the value"}),
        ("a=1,\\\n   2,\\\n\t3", {"a": "1,2,3"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("# comment \\\na=1", {"a": "1"}),
        ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\uD83D\\uDE00", {"a": "é😀"}),
        ("u=http\\://localhost\\:8083", {"u": "http://localhost:8083"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("=b", {"": "b"}),
        ("", {}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12G4", "a=1\nb=\\uZZZZ"])
def test_a_malformed_unicode_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Line {len(text.splitlines())}: malformed"):
        parse_properties(text)


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


_TEXT = st.text(st.characters(codec="utf-8"))


@given(st.dictionaries(_TEXT.filter(bool), _TEXT))
def test_whatever_is_written_escaped_comes_back(entries: dict[str, str]) -> None:
    text = "\n".join(f"{_escaped(key)}={_escaped(value)}" for key, value in entries.items())
    assert parse_properties(text) == entries


@given(st.text(st.sampled_from("ab=: \t\f\\\n\r#!u0é")))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        entries = list(scan_properties(text))
    except ConfigError:
        return
    assert all(1 <= entry.line <= len(text) + 1 for entry in entries)
    assert not any("\\\n" in entry.key for entry in entries)


def test_entries_know_the_line_they_begin_on() -> None:
    text = "# first\n\na=1,\\\n  2\n\nb=3\n"
    assert [(entry.key, entry.line) for entry in scan_properties(text)] == [("a", 3), ("b", 6)]


def test_a_file_is_read_as_latin_1_and_utf_8_in_it_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    latin = tmp_path / "latin.properties"
    latin.write_bytes("a=é".encode("iso-8859-1"))
    with caplog.at_level(logging.WARNING):
        assert load_properties(latin) == {"a": "é"}
        assert not caplog.records
        utf8 = tmp_path / "utf8.properties"
        utf8.write_bytes("a=é".encode())
        assert load_properties(utf8) == {"a": "Ã©"}
    assert "line 1" in caplog.text
    assert "Ã©" not in caplog.text


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.properties: No such file"):
        load_properties(tmp_path / "nowhere.properties")
