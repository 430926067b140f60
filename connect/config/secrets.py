"""The secrets that this process has seen in properties, and their removal from texts.

Libraries may log what they send, and anybody who can reach `/admin/loggers` can make them. So log
lines are cleaned of known values, whichever logger and level they come from. Thread-safe.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping

__all__ = ["remember", "remember_properties", "without_secrets"]

# Names of properties whose values are secrets.
_SECRET = re.compile(
    r"passw|passphrase|secret|jaas|credential|token$|^ssl\..*key$|\.ssl\..*key$", re.IGNORECASE
)
_OPTION = re.compile(
    r"""\w*(?:passw|passphrase|secret|token)\w*\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))""",
    re.IGNORECASE,
)
_HIDDEN = "[hidden]"
# Shorter values would remove common words from the log, and are no secrets worth the name.
_SHORTEST = 6
_MOST = 1_000

_lock = threading.Lock()
_known: dict[str, None] = {}
_pattern: re.Pattern[str] | None = None


def remember_properties(props: Mapping[str, str]) -> None:
    """Remember the secrets of a worker's, a flow's or a connector's resolved properties."""
    found: list[str] = []
    for key, value in props.items():
        if _SECRET.search(key) is None:
            continue
        options = [next(filter(None, groups), "") for groups in _OPTION.findall(value)]
        found += options or [value.strip()]
    remember(found)


def remember(secrets: Iterable[str]) -> None:
    """Remember secrets, such as a token that was just fetched. The oldest of very many go."""
    global _pattern
    new = [text for text in secrets if len(text) >= _SHORTEST and text not in _known]
    if not new:
        return
    with _lock:
        for text in new:
            _known[text] = None
            if len(_known) > _MOST:
                del _known[next(iter(_known))]
        longest_first = sorted(_known, key=len, reverse=True)
        _pattern = re.compile("|".join(map(re.escape, longest_first)))


def without_secrets(text: str) -> str:
    """Return a text with every remembered secret as `[hidden]`."""
    pattern = _pattern
    return text if pattern is None else pattern.sub(_HIDDEN, text)
