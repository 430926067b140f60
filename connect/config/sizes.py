"""Parse sizes and rates such as `50MB`, `1.5GiB/s` and `800000`."""

from __future__ import annotations

import re

__all__ = ["parse_size"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?(?:/s)?", re.IGNORECASE)


def parse_size(text: str) -> float | None:
    """Return bytes, or bytes per second; None if the text is not a size above 0."""
    found = _SIZE.fullmatch(text.strip())
    number = float(found[1]) if found else 0.0
    if not found or number <= 0:
        return None
    power = " kmgt".index(found[2].lower() or " ")
    return float(number * (1024 if found[3] else 1000) ** power)
