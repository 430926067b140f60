"""The files of key and trust stores, and whether they were replaced."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["StoreFiles", "store_files"]

_KEYS = ("ssl.keystore.location", "ssl.truststore.location")

_Identity = tuple[int, int, int]


def store_files(props: Mapping[str, str]) -> list[str]:
    """Return the paths of the key and trust stores that these Java properties name."""
    return [props[key] for key in _KEYS if props.get(key)]


class StoreFiles:
    """The files that `ssl.*` properties name. Not thread-safe: callers that share it have a
    lock."""

    def __init__(self, props: Mapping[str, str]) -> None:
        """`props`: Java client or listener properties."""
        self._paths = store_files(props)
        self._seen = self._state()

    def changed(self) -> bool:
        """Return whether a file was replaced since the last call, or since the creation of this
        object. True once for each change, so that a file that cannot be read is not tried again and
        again."""
        if not self._paths:
            return False
        state = self._state()
        if state == self._seen:
            return False
        self._seen = state
        return True

    def _state(self) -> list[_Identity | None]:
        return [_identity(path) for path in self._paths]


def _identity(path: str) -> _Identity | None:
    # Secrets of Kubernetes are replaced by another target of a symbolic link, which stat follows.
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
