"""The servers that the fixture `start_server` starts."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["LISTENER", "StartServer"]

LISTENER = {"listeners": "http://127.0.0.1:0"}

StartServer = Callable[..., str]
"""Of the fixture: the URL of a server that it has started."""
