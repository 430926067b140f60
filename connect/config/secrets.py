"""The secrets that this process has seen in properties, and their removal from texts.

Libraries may log what they send, and anybody who can reach `/admin/loggers` can make them; an
exception of a plugin may quote its config. So log lines, traces and error answers are cleaned of
known values, whoever wrote them. Thread-safe.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

__all__ = [
    "is_secret_name",
    "remember",
    "remember_properties",
    "remember_secret",
    "without_secrets",
]

# Names of properties whose values are secrets.
_SECRET = re.compile(
    r"passw|passphrase|secret|jaas|credential|token$|^ssl\..*key$|\.ssl\..*key$", re.IGNORECASE
)
# Options of a login module: a name with its sign, which names are those of secrets, and a value. No
# quantifier gives back what it took: that would need the third power of the length of some texts.
_OPTION = re.compile(r"(?<!\w)(ssl\.keystore\.key|\w++)\s*+=\s*+", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"passw|passphrase|secret|token|\.key$", re.IGNORECASE)
_VALUE = re.compile(r""""([^"\\]*+(?:\\.[^"\\]*+)*)"|'([^'\\]*+(?:\\.[^'\\]*+)*)'|([^\s;"']++)""")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_URL = re.compile(r"[a-z][\w+.-]*://", re.IGNORECASE)
_USER_INFO = re.compile(r"[^:/?#]*://[^:/?#@]*:([^?#]*)@")
_HIDDEN = "[hidden]"
# Shorter values would remove common words from the log, and are no secrets worth the name.
_SHORTEST = 6
_MOST = 2_000
# Whoever may validate a config chooses values, and each is kept in seven forms.
_LONGEST, _MOST_CHARACTERS = 256 << 10, 4 << 20
# Longer ones are searched one by one: a pattern of so many characters takes seconds to compile.
_LONGEST_IN_PATTERN = 256
# Lines of a private key that are shorter are its frame.
_PEM_LINE = 32


class _Search(NamedTuple):
    """Finds the known secrets. Longer ones come first: shorter ones may be parts of them."""

    long: tuple[str, ...]
    pattern: re.Pattern[str] | None

    def hide_in(self, text: str) -> str:
        # Most texts are lines of a log, and shorter than the shortest of these.
        if self.long and len(text) >= len(self.long[-1]):
            for secret in self.long:
                text = text.replace(secret, _HIDDEN)
        return text if self.pattern is None else self.pattern.sub(_HIDDEN, text)


_NOTHING = _Search((), None)
_lock = threading.Lock()
_known: dict[str, None] = {}
_search = _NOTHING


def is_secret_name(name: str) -> bool:
    """Return whether the value of a property with this name counts as a secret."""
    return _SECRET.search(name) is not None


def remember_properties(props: Mapping[str, str]) -> None:
    """Remember the secrets of a worker's, a flow's or a connector's resolved properties, and
    passwords in URLs under any name."""
    found: list[str] = []
    for key, value in props.items():
        if is_secret_name(key):
            found += _secrets_of(value)
        elif "://" in value:
            found += _of_url(value)
    remember(found)


def remember_secret(value: str) -> None:
    """Remember what is secret in the value of a property of type PASSWORD: the password of a URL,
    the options of a login module, else all of it."""
    remember(_secrets_of(value))


def remember(secrets: Iterable[str]) -> None:
    """Remember secrets, such as a token that was just fetched, in each form that texts may quote
    them in. If there are too many, the oldest are dropped, and none longer than 256 KiB is kept."""
    global _search
    new = [form for text in secrets for form in _forms(text) if form not in _known]
    if not new:
        return
    with _lock:
        _known.update(dict.fromkeys(new))
        characters = sum(map(len, _known))
        while len(_known) > _MOST or characters > _MOST_CHARACTERS:
            oldest = next(iter(_known))
            characters -= len(oldest)
            del _known[oldest]
        _search = _search_for(_known)


def without_secrets(text: str) -> str:
    """Return a text with every remembered secret as `[hidden]`."""
    return _search.hide_in(text)


def _search_for(secrets: Iterable[str]) -> _Search:
    longest_first = sorted(secrets, key=len, reverse=True)
    long = tuple(each for each in longest_first if len(each) > _LONGEST_IN_PATTERN)
    short = longest_first[len(long) :]
    return _Search(long, re.compile("|".join(map(re.escape, short))) if short else None)


def _secrets_of(value: str) -> Iterator[str]:
    text = value.strip()
    if _URL.match(text):
        yield from _of_url(text)
        return
    options = list(_secret_options(text))
    for option in options:
        yield option
        yield _ESCAPED.sub(r"\1", option)
    if not options or "LoginModule" not in text:
        yield text
    if "PRIVATE KEY" in text:
        yield from (line for line in text.split() if len(line) >= _PEM_LINE)


def _secret_options(text: str) -> Iterator[str]:
    at = 0
    while (option := _OPTION.search(text, at)) is not None:
        at = option.end()
        value = _VALUE.match(text, at) if _SECRET_OPTION.search(option[1]) else None
        if value is not None:
            at = value.end()
            yield next(filter(None, value.groups()), "")


def _of_url(url: str) -> Iterator[str]:
    found = _USER_INFO.match(url)
    passwords = [] if found is None else [found[1]]
    _, _, query = url.partition("?")
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if is_secret_name(name):
            passwords.append(value)
    for password in passwords:
        yield password
        yield urllib.parse.unquote_plus(password)


def _forms(text: str) -> Iterator[str]:
    """Yield a secret as it is, as Python's repr and JSON write it, and as URLs do."""
    if not _SHORTEST <= len(text) <= _LONGEST:
        return
    yield from dict.fromkeys(
        (
            text,
            repr(text)[1:-1],
            repr(text.encode(errors="surrogatepass"))[2:-1],
            json.dumps(text)[1:-1],
            json.dumps(text, ensure_ascii=False)[1:-1],
            urllib.parse.quote(text, safe="", errors="replace"),
            urllib.parse.quote_plus(text, errors="replace"),
        )
    )
