"""The former name of `connect.sdk`, kept for plugins of earlier releases. Use `connect.sdk`."""

from __future__ import annotations

from connect.sdk import *  # noqa: F403
from connect.sdk import __all__

__all__ = list(__all__)
