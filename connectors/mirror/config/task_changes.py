"""Decides which config changes a source task applies while it runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.mirror.config.rate_limits import RATE_NAMES

__all__ = ["flow_part", "only_adds_partitions"]

_ASSIGNMENT = "task.assigned.partitions"
_CHANGE_IN_PLACE = {_ASSIGNMENT, "task.count", *RATE_NAMES}


def flow_part(config: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the config that a running task cannot change: all but its assignment and
    limits."""
    return {key: value for key, value in config.items() if key not in _CHANGE_IN_PLACE}


def only_adds_partitions(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a source task's new config only adds partitions."""
    if flow_part(before) != flow_part(after):
        return False
    had, has = (set(config.get(_ASSIGNMENT, "").split(",")) for config in (before, after))
    return had <= has
