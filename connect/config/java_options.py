"""Java's system properties that users set in the environment's KAFKA_OPTS."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

__all__ = ["system_property"]


def system_property(name: str, environment: Mapping[str, str]) -> str | None:
    """Return the value of the last `-Dname=value` in KAFKA_OPTS, or None."""
    text = environment.get("KAFKA_OPTS", "")
    try:
        options = shlex.split(text)
    except ValueError:
        options = text.split()
    prefix = f"-D{name}="
    found = [option.removeprefix(prefix) for option in options if option.startswith(prefix)]
    return found[-1] if found else None
