"""Control characters in texts that are printed or logged.

Kafka allows any character in the name of a consumer group, a member or a principal. On a terminal
some of them change what was printed before, and a line break would look like a line of its own.
Pure.
"""

from __future__ import annotations

import re

__all__ = ["indented", "visible"]

# C0 with DEL, C1, the two other line breaks of Unicode, and what reorders text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_BUT_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INDENT = "\n    "


def visible(text: str) -> str:
    """Return a text with control characters as escapes, such as `\\n` and `\\x1b`: one line."""
    return _CONTROL.sub(_escape, text)


def indented(text: str) -> str:
    """Return a text whose further lines are indented, with other control characters but tabs as
    escapes."""
    return _BUT_LINES.sub(_escape, text).replace("\n", _INDENT)


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    return _NAMES.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
