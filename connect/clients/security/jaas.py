"""Java's `sasl.jaas.config`: a login module, a control flag and options.

    org.apache.kafka...PlainLoginModule required username="u" password="p";

Values may be quoted with `"` or `'`, with backslash escapes inside; `//` and `/* */` comments are
skipped. Errors never quote the text, because it contains the password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connect.config.secrets import is_secret_name, remember
from connect.errors import ConfigError

__all__ = ["JAAS_KEY", "LoginModule", "parse_jaas"]

JAAS_KEY = "sasl.jaas.config"

# Options that errors may name.
_OPTIONS = frozenset(
    {
        "username",
        "password",
        "tokenauth",
        "serviceName",
        "principal",
        "keyTab",
        "useKeyTab",
        "useTicketCache",
        "ticketCache",
        "storeKey",
        "clientId",
        "clientSecret",
        "scope",
        "awsProfileName",
    }
)
_CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*|/\*.*?(?:\*/|\Z))*
        (?: (?P<sign>[=;])
          | "(?P<double>(?:[^"\\]|\\.)*)"
          | '(?P<single>(?:[^'\\]|\\.)*)'
          | (?P<word>[^\s=;"']+)
          | (?P<end>\Z)
          | (?P<bad>.) )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One JAAS entry. `name` is the class without its package; `options` may hold secrets."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Parse the single login module of `text`. Raises ConfigError, which does not quote the
    text.
    """
    tokens = _tokens(text)
    words = iter(tokens)
    module = _word(words, "a login module's class")
    flag = _word(words, "a control flag after the class")
    if flag.lower() not in _CONTROL_FLAGS:
        raise _wrong(f"the control flag must be one of {', '.join(_CONTROL_FLAGS)}")
    options: dict[str, str] = {}
    for kind, value in words:
        if (kind, value) == ("sign", ";"):
            break
        if kind != "word":
            raise _wrong(f"expected an option name, '=' and value, or ';', after {_seen(options)}")
        if next(words, None) != ("sign", "="):
            raise _wrong(
                f"{_shown(value, len(options))} has no '=' after its name; put a value with blanks"
                " or signs in quotes"
            )
        options[value] = _word(words, f"a value for {_shown(value, len(options))}")
    else:
        raise _wrong("the entry must end with a semicolon")
    if next(words, None) is not None:
        raise _wrong("it must contain exactly one login module")
    remember(value for name, value in options.items() if is_secret_name(name))
    return LoginModule(module.rpartition(".")[2], options)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind == "end":
            break
        if kind == "bad":
            raise _wrong("a quoted value has no closing quote")
        value = found.group(kind or 0)
        if kind in ("double", "single"):
            tokens.append(("quoted", _ESCAPE.sub(_unescaped, value)))
        else:
            tokens.append((kind or "", value))
    return tokens


def _unescaped(found: re.Match[str]) -> str:
    escape = found.group(1)
    if escape[0] in "01234567":
        return chr(int(escape, 8) & 0xFF)
    return _ESCAPED.get(escape, escape)


def _word(words: Iterator[tuple[str, str]], what: str) -> str:
    token = next(words, None)
    if token is None or token[0] == "sign":
        raise _wrong(f"{what} is missing")
    return token[1]


def _seen(options: Mapping[str, str]) -> str:
    return _shown(list(options)[-1], len(options) - 1) if options else "the control flag"


def _shown(option: str, before: int) -> str:
    """Name an option in an error. An unknown name is not shown, because it may be part of a
    password without quotes."""
    return f"the option {option}" if option in _OPTIONS else f"option {before + 1}"


def _wrong(reason: str) -> ConfigError:
    return ConfigError(
        f"Invalid value [hidden] for configuration {JAAS_KEY}: {reason}", key=JAAS_KEY
    )
