"""Formats durations for people."""

from __future__ import annotations

__all__ = ["time_text"]


def time_text(seconds: float) -> str:
    """Format a duration."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
