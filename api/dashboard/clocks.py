"""Detects a wrong clock from the timestamps of copied records. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from connect.plugin import PartitionHealth

__all__ = ["clock_warning"]


def clock_warning(partitions: Iterable[PartitionHealth]) -> str | None:
    """Say that records come from the future by this host's clock; None if none do.

    Copying does not depend on clocks, but lag and latency are wrong, and so are tokens and
    certificates that are checked by the time. A clock that is fast cannot be told from producers
    that set old timestamps, so that is not reported.
    """
    ahead = [
        value
        for each in partitions
        if isinstance(value := each.details.get("timestamps_ahead_ms"), int)
    ]
    if not ahead:
        return None
    count = f"{len(ahead)} partition{'s' if len(ahead) > 1 else ''}"
    return (
        f"records of {count} have timestamps up to {max(ahead) // 1000} s later than the worker's "
        "clock: check the clocks of the worker's host and of the producers"
    )
