r"""Parse Java's .properties syntax like `java.util.Properties`.

A logical line is one or more natural lines joined by a backslash at the end; white space at the
start of each is dropped. `#` or `!` first makes a comment, which cannot be continued. The key ends
at the first unescaped `=`, `:` or blank. Escapes: `\t \n \r \f \uXXXX`; before any other
character a backslash only disappears.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from connect.errors import ConfigError

__all__ = [
    "Property",
    "load_properties",
    "parse_properties",
    "read_properties",
    "scan_properties",
    "without_prefix",
]

log = logging.getLogger(__name__)

T = TypeVar("T")

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_TRAILING_BACKSLASHES = re.compile(r"\\*\Z")
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.?)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.?))", re.DOTALL)
_HEX4 = re.compile(r"[0-9A-Fa-f]{4}")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Property:
    """One property with the number (from 1) of its first line. Its value may be a secret."""

    key: str
    value: str
    line: int


def scan_properties(text: str) -> Iterator[Property]:
    r"""Yield all properties in order, including duplicates. Raises ConfigError on a malformed
    \uXXXX.
    """
    for line, content in _logical_lines(text):
        key_end = _end_of(_KEY, content, 0)
        value_start = _end_of(_SEPARATOR, content, key_end)
        yield Property(
            _unescape(content[:key_end], line), _unescape(content[value_start:], line), line
        )


def parse_properties(text: str) -> dict[str, str]:
    """Return keys and values. The last value of a duplicate key counts, as in Java."""
    return {entry.key: entry.value for entry in scan_properties(text)}


def read_properties(path: Path) -> list[Property]:
    """Return the properties of a file, read as ISO-8859-1 like Java's launchers.

    Raises ConfigError with the path if the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"Could not read properties from file {path}: {error.strerror}", value=str(path)
        ) from error
    entries = list(scan_properties(content.decode("iso-8859-1")))
    for entry in entries:
        if not (entry.key + entry.value).isascii() and _looks_like_utf8(entry.key + entry.value):
            log.warning(
                "%s, line %d: the value of %s looks like UTF-8, but property files are read as "
                "ISO-8859-1, as Java does; write \\uXXXX escapes for other characters",
                path,
                entry.line,
                entry.key,
            )
    return entries


def load_properties(path: str | Path) -> dict[str, str]:
    """Return the properties of a file as a dict. Raises ConfigError if it cannot be read or
    parsed.
    """
    return {entry.key: entry.value for entry in read_properties(Path(path))}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    joined = ""
    first = 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        content = natural.lstrip(_BLANKS)
        if not joined:
            if not content or content[0] in "#!":
                continue
            first = number
        if _continues(content):
            joined += content[:-1]
            continue
        yield first, joined + content
        joined = ""
    if joined:
        yield first, joined


def _continues(content: str) -> bool:
    found = _TRAILING_BACKSLASHES.search(content)
    return found is not None and len(found.group()) % 2 == 1


def _end_of(pattern: re.Pattern[str], content: str, start: int) -> int:
    found = pattern.match(content, start)
    return found.end() if found else start


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def plain(found: re.Match[str]) -> str:
        digits, char = found.groups()
        if digits is None:
            return _ESCAPED.get(char, char)
        if not _HEX4.fullmatch(digits):
            raise ConfigError(
                f"Line {line}: malformed \\uXXXX escape: four hexadecimal digits must follow \\u"
            )
        return chr(int(digits, 16))

    unescaped = _ESCAPE.sub(plain, text)
    # A character beyond U+FFFF is written as two escapes, a surrogate pair.
    return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _looks_like_utf8(text: str) -> bool:
    try:
        text.encode("iso-8859-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return False
    return True


def without_prefix(props: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the properties that have this prefix, with the prefix removed."""
    return {
        key[len(prefix) :]: value
        for key, value in props.items()
        if key.startswith(prefix) and len(key) > len(prefix)
    }
