"""The key of the history's database; here, as configs may not import the database's module."""

from __future__ import annotations

__all__ = ["URL_KEY"]

URL_KEY = "mirror.history.url"
