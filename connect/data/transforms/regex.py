"""Replacement with Java's regular expression syntax, for transformations."""

from __future__ import annotations

import regex

from connect.config.validators import JavaPattern
from connect.errors import DataError

__all__ = ["JavaPattern", "replace_first"]


def replace_first(match: regex.Match[str], replacement: str) -> str:
    """Return the text with its match replaced. `$1` and `${name}` are groups, a backslash escapes.

    Raises `DataError` for a group that the pattern lacks.
    """
    out: list[str] = []
    at = 0
    while at < len(replacement):
        char = replacement[at]
        if char == "\\":
            if at + 1 == len(replacement):
                raise DataError("character to be escaped is missing")
            out.append(replacement[at + 1])
            at += 2
        elif char == "$":
            text, at = _group(match, replacement, at + 1)
            out.append(text)
        else:
            out.append(char)
            at += 1
    return match.string[: match.start()] + "".join(out) + match.string[match.end() :]


def _group(match: regex.Match[str], replacement: str, at: int) -> tuple[str, int]:
    if at == len(replacement):
        raise DataError("Illegal group reference: group index is missing")
    if replacement[at] == "{":
        end = replacement.find("}", at)
        name = replacement[at + 1 : end]
        if end < 0 or name not in match.re.groupindex:
            raise DataError(f"No group with name {{{name}}}")
        return match.group(name) or "", end + 1
    if not ("0" <= replacement[at] <= "9"):
        raise DataError("Illegal group reference")
    number, at = int(replacement[at]), at + 1
    if number > match.re.groups:
        raise DataError(f"No group {number}")
    # Further digits belong to the group number as long as such a group exists.
    while at < len(replacement) and "0" <= replacement[at] <= "9":
        longer = number * 10 + int(replacement[at])
        if longer > match.re.groups:
            break
        number, at = longer, at + 1
    return match.group(number) or "", at
