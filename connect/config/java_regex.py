r"""Java regular expressions from properties, matched in bounded time.

Users write them, and some match in exponential time. Python's `re` cannot be interrupted and lets
no other thread run meanwhile, so that a worker would miss its heartbeats; the `regex` package can.

Supported: quoting (`\Q..\E`), POSIX and Unicode category names (`\p{Alpha}`), classes that nest,
unite and intersect, possessive quantifiers, atomic and named groups, inline flags anywhere, and
Java's own escapes. As in Java without flags, `\w`, `\d`, `\s` and `(?i)` mean ASCII. Unsupported,
with a clear error: `\G`, `\X`, `\b{g}`, the flags x and U, scripts and blocks, and features that
`regex` lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import regex

from connect.config.java_classes import CharSet, Range, named_class, predefined_class
from connect.config.regex_budget import LONGEST, SHORT, TooMuch, current, turn
from connect.config.regex_size import COUNT, JavaRegexError, PatternSize
from connect.errors import ConfigError

__all__ = ["JavaRegex", "JavaRegexError", "TextPattern", "compile_java_regex", "literal_regex"]

_MATCH_S = 0.5
_TRIES = 2
"""The limit counts the CPU time of all threads, so one match of a busy process may exceed it."""
_DEEPEST = 100
_SHOWN = 200
_MOST_DIGITS = 10
"""Of a count: Java's are integers of 32 bits."""

_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_NAMED_GROUP = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_NAMED_REFERENCE = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY = re.compile(r"\\[pP](?:\{(\^?)([^}]*)\}|([A-Z]))")
_HEX = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|x\{([0-9a-fA-F]+)\})")
_OCTAL = re.compile(r"\\0([0-3][0-7]{2}|[0-7]{1,2})")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS = {"A": r"\A", "z": r"\Z", "Z": r"(?=\n?\Z)", "b": r"\b", "B": r"\B"}
_PLAIN_GROUPS = ("(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!")
_LOOK_BEHIND = ("(?<=", "(?<!")
_LINE_BREAK = r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"
_KNOWN_FLAGS = {"i": "i", "m": "m", "s": "s", "u": "u", "d": ""}


class JavaRegex:
    """A compiled pattern. Matching raises `ConfigError` if it takes too long. Thread-safe; other
    threads run while it matches."""

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str, compiled: regex.Pattern[str]) -> None:
        self.pattern = pattern
        self._compiled = compiled

    def __repr__(self) -> str:
        return f"JavaRegex({self.pattern!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JavaRegex) and other._compiled == self._compiled

    def __hash__(self) -> int:
        return hash(self._compiled)

    def fullmatch(self, text: str) -> regex.Match[str] | None:
        """Return the match of the whole text: Java's `matches()`."""
        return self._bounded(self._compiled.fullmatch, text)

    def search(self, text: str) -> regex.Match[str] | None:
        """Return the first match in the text: Java's `find()`."""
        return self._bounded(self._compiled.search, text)

    def _bounded(
        self, match: Callable[..., regex.Match[str] | None], text: str
    ) -> regex.Match[str] | None:
        for _ in range(_TRIES):
            try:
                return match(text, timeout=_MATCH_S, concurrent=True)
            except TimeoutError:
                continue
        raise ConfigError(
            f"The regular expression {self.pattern[:_SHOWN]} needs too long to match"
            f" {text[:_SHOWN]!r}; rewrite it without repetition inside repetition, such as (a+)+",
            value=self.pattern,
        )


TextPattern = JavaRegex | re.Pattern[str]
"""The type of patterns where a program's own are accepted, too."""


def compile_java_regex(pattern: str) -> JavaRegex:
    """Compile a pattern in Java's syntax. Raises `JavaRegexError`."""
    if len(pattern) > LONGEST:
        raise JavaRegexError(
            f"The pattern has {len(pattern)} characters, and at most {LONGEST} are supported",
            LONGEST,
        )
    budget = current()
    if budget is None:
        return _compile(pattern)
    if pattern not in budget.compiled:
        try:
            budget.take(len(pattern))
        except TooMuch as error:
            raise JavaRegexError(str(error), 0) from error
        budget.compiled[pattern] = _compile(pattern)
    compiled: JavaRegex = budget.compiled[pattern]
    return compiled


def _compile(pattern: str) -> JavaRegex:
    try:
        with turn(len(pattern)):
            translator = _Translator(pattern)
            translated = translator.translate()
            # A short pattern may be a long one after translation.
            size, budget = translator.size, current()
            if budget is not None and size.written_out > len(pattern):
                budget.take(size.written_out - len(pattern))
            with turn(0 if len(pattern) > SHORT else size.largest):
                return JavaRegex(
                    pattern, regex.compile(translated, regex.ASCII, cache_pattern=False)
                )
    except TooMuch as error:
        raise JavaRegexError(str(error), 0) from error
    except (regex.error, OverflowError, RecursionError) as error:
        reason = str(error).partition(" at position ")[0]
        raise JavaRegexError(f"Not supported here: {reason}", 0) from error


def literal_regex(text: str) -> JavaRegex:
    """Return the pattern that only this text matches."""
    return JavaRegex(text, regex.compile(regex.escape(text)))


class _Translator:
    """Translates one pattern in one pass, by recursive descent."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._groups = 0
        self._depth = 0
        self.size = PatternSize()
        self._behind: int | None = None
        """Where the outermost look-behind begins that is being translated."""

    def translate(self) -> str:
        result = self._alternatives()
        if self._at < len(self._text):
            raise JavaRegexError("Unmatched closing ')'", self._at)
        return result

    def _alternatives(self) -> str:
        """Translate up to the `)` of the enclosing group.

        A flag such as `(?i)` also reaches to that end, across any `|`. It becomes a scoped group
        that is closed and opened again at each `|`.
        """
        parts: list[str] = []
        scopes: list[str] = []
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._text[self._at] == "|":
                self.size.write(1 + len(scopes), self._at)
                self._at += 1
                parts += [")" * len(scopes), "|", *scopes]
            elif (flags := _FLAGS.match(self._text, self._at)) and flags[3] == ")":
                scopes.append(self._scope(flags))
                parts.append(scopes[-1])
            else:
                parts.append(self._quantified())
        return "".join(parts) + ")" * len(scopes)

    def _quantified(self) -> str:
        start, before = self._at, self.size.written_out
        self.size.write(1, start)
        atom, repeatable = self._atom()
        while quantifier := self._quantifier():
            self.size.repeat(quantifier, before, start)
            atom = f"{atom if repeatable else f'(?:{atom})'}{quantifier}"
            repeatable = False
            if not self._text.startswith("{", self._at):
                break
        return atom

    def _quantifier(self) -> str:
        rest = self._text[self._at : self._at + 1]
        if rest and rest in "*+?":
            quantifier = rest
            self._at += 1
        elif rest == "{":
            count = COUNT.match(self._text, self._at)
            if count is None:
                raise JavaRegexError("Unclosed counted closure", self._at)
            longest = max(len(count[1]), len(count[3] or ""))
            if longest > _MOST_DIGITS or (count[3] and int(count[3]) < int(count[1])):
                raise JavaRegexError("Illegal repetition range", self._at)
            quantifier = count[0]
            self._at = count.end()
        else:
            return ""
        if self._behind is not None and (quantifier in "*+" or quantifier.endswith(",}")):
            raise JavaRegexError(
                "The look-behind group does not have an obvious maximum length", self._behind
            )
        if self._text[self._at : self._at + 1] in ("?", "+"):
            quantifier += self._text[self._at]
            self._at += 1
        return quantifier

    def _atom(self) -> tuple[str, bool]:
        """Return the next atom, and whether `re` allows a quantifier directly after it."""
        char = self._text[self._at]
        if char == "(":
            return self._group(), True
        if char == "[":
            return self._python(self._char_class()), True
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise JavaRegexError(f"Dangling meta character '{char}'", self._at)
        if char == "{":
            raise JavaRegexError("Illegal repetition", self._at)
        self._at += 1
        if char in "^$":
            return char, False
        return (char if char == "." else re.escape(char)), True

    def _group(self) -> str:
        start = self._at
        self._enter()
        head = self._group_head()
        behind = self._behind
        self._behind = start if behind is None and head in _LOOK_BEHIND else behind
        body = self._alternatives()
        self._behind = behind
        self._depth -= 1
        if self._at >= len(self._text):
            raise JavaRegexError("Unclosed group", start)
        self._at += 1
        return f"{head}{body})"

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise JavaRegexError(f"Nested more than {_DEEPEST} levels deep", self._at)

    def _group_head(self) -> str:
        if not self._text.startswith("(?", self._at):
            self._at += 1
            self._groups += 1
            return "("
        if named := _NAMED_GROUP.match(self._text, self._at):
            self._at = named.end()
            self._groups += 1
            return f"(?P<{named[1]}>"
        for head in _PLAIN_GROUPS:
            if self._text.startswith(head, self._at):
                self._at += len(head)
                return head
        if flags := _FLAGS.match(self._text, self._at):
            return self._scope(flags)
        raise JavaRegexError("Unknown inline modifier", self._at + 2)

    def _scope(self, flags: re.Match[str]) -> str:
        for letter in flags[1] + (flags[2] or ""):
            if letter not in _KNOWN_FLAGS:
                raise JavaRegexError(f"Flag '{letter}' is not supported", self._at)
        self._at = flags.end()
        on = "".join(_KNOWN_FLAGS[letter] for letter in dict.fromkeys(flags[1]))
        off = "".join(_KNOWN_FLAGS[letter] for letter in dict.fromkeys(flags[2] or ""))
        off = off.replace("u", "")
        return f"(?{on}{'-' if off else ''}{off}:"

    def _escape(self) -> tuple[str, bool]:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter == "Q":
            return re.escape(self._quotation()), True
        if letter in _ANCHORS and not self._text.startswith("{", self._at + 2):
            self._at += 2
            return _ANCHORS[letter], False
        if letter == "R":
            self._at += 2
            return _LINE_BREAK, True
        if reference := _NAMED_REFERENCE.match(self._text, self._at):
            self._at = reference.end()
            return f"(?P={reference[1]})", True
        if letter and letter in "123456789":
            return self._back_reference(), True
        found = self._escaped_class()
        if found is not None:
            return self._python(found), True
        return re.escape(self._escaped_char()), True

    def _back_reference(self) -> str:
        """Read a back reference. As in Java, only the digits of an existing group number belong to
        it.
        """
        number = int(self._text[self._at + 1])
        self._at += 2
        while (digit := self._text[self._at : self._at + 1]).isdecimal():
            if number * 10 + int(digit) > self._groups:
                break
            number = number * 10 + int(digit)
            self._at += 1
        return f"(?:\\{number})"

    def _quotation(self) -> str:
        end = self._text.find("\\E", self._at + 2)
        quoted = self._text[self._at + 2 : end if end >= 0 else len(self._text)]
        self._at = len(self._text) if end < 0 else end + 2
        return quoted

    def _escaped_class(self) -> CharSet | None:
        """Read a class escape, or return None and read nothing if there is none."""
        if found := _PROPERTY.match(self._text, self._at):
            named = named_class(found[2] or found[3] or "")
            if named is None:
                name = found[2] or found[3]
                raise JavaRegexError(f"Unknown character property name {{{name}}}", self._at)
            negated = (self._text[self._at + 1] == "P") != bool(found[1])
            self._at = found.end()
            return named.complement() if negated else named
        predefined = predefined_class(self._text[self._at + 1 : self._at + 2])
        if predefined is not None:
            self._at += 2
        return predefined

    def _escaped_char(self) -> str:
        """Read an escape of a single character."""
        if found := _HEX.match(self._text, self._at):
            code = int(found[1] or found[2] or found[3], 16)
            if code > 0x10FFFF:
                raise JavaRegexError("Hexadecimal codepoint is too big", self._at)
        elif found := _OCTAL.match(self._text, self._at):
            code = int(found[1], 8)
        else:
            return self._simple_escape()
        self._at = found.end()
        return chr(code)

    def _simple_escape(self) -> str:
        letter = self._text[self._at + 1 : self._at + 2]
        if not letter:
            raise JavaRegexError("Unexpected internal error: a lone backslash", self._at)
        if letter == "c" and self._at + 2 < len(self._text):
            self._at += 3
            return chr(ord(self._text[self._at - 1]) ^ 64)
        if letter.isascii() and letter.isalnum() and letter not in _CONTROL:
            raise JavaRegexError(f"Illegal/unsupported escape sequence \\{letter}", self._at)
        self._at += 2
        return _CONTROL.get(letter, letter)

    def _char_class(self) -> CharSet:
        """Read a class from `[` to its `]`.

        `&&` binds less than the union of adjacent items; `^` at the start negates the whole class.
        """
        start = self._at
        self._enter()
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        result: CharSet | None = None
        union: list[Range] | None = None
        while True:
            if self._at >= len(self._text):
                raise JavaRegexError("Unclosed character class", start)
            if self._text[self._at] == "]" and (union is not None or result is not None):
                break
            if self._text.startswith("&&", self._at):
                self._at += 2
                result = _intersect(result, union)
                union = None
            else:
                union = [] if union is None else union
                union += self.size.read(self._class_item(), self._at).ranges
        self._at += 1
        self._depth -= 1
        found = _intersect(result, union) or CharSet()
        return found.complement() if negated else found

    def _python(self, found: CharSet) -> str:
        self.size.write(len(found.ranges), self._at)
        return self.size.read(found, self._at).python()

    def _class_item(self) -> CharSet:
        if self._text[self._at] == "[":
            return self._char_class()
        if self._text.startswith("\\Q", self._at):
            return CharSet.chars(self._quotation())
        if self._text[self._at] == "\\" and (found := self._escaped_class()) is not None:
            return found
        start = self._at
        low = self._class_char()
        after_dash = self._text[self._at + 1 : self._at + 2]
        if not self._text.startswith("-", self._at) or after_dash in ("]", "[", ""):
            return CharSet.chars(low)
        self._at += 1
        high = self._class_char()
        if high < low:
            raise JavaRegexError("Illegal character range", start)
        return CharSet(((ord(low), ord(high)),))

    def _class_char(self) -> str:
        if self._text[self._at] == "\\":
            return self._escaped_char()
        self._at += 1
        return self._text[self._at - 1]


def _intersect(left: CharSet | None, right: list[Range] | None) -> CharSet | None:
    if right is None:
        return left
    united = CharSet.of(right)
    return united if left is None else left.intersection(united)
