"""Files of properties, as programs read them."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["properties_text"]


def properties_text(properties: Mapping[str, str]) -> str:
    """The text of a file with these properties. Values are written as they are: a backslash means
    what it means in such a file."""
    return "".join(f"{key} = {value}\n" for key, value in properties.items())
