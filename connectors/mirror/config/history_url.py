"""The key of the history database. It has its own module because config modules may not import the
database module."""

from __future__ import annotations

__all__ = ["URL_KEY"]

URL_KEY = "mirror.history.url"
