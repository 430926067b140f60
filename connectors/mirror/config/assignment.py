"""Keys for the assignment of partitions to tasks. Not keys of MirrorMaker 2."""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance, ParsedConfig
from connect.config.types import ConfigType
from connect.config.validators import OneOf, Range

__all__ = ["ASSIGNMENT_KEYS", "move_every_s"]

_ASSIGNMENT, _INTERVAL = "mirror.assignment", "mirror.assignment.interval.seconds"
_MOVE_EVERY_S = 600

ASSIGNMENT_KEYS = (
    ConfigKey(
        _ASSIGNMENT,
        ConfigType.STRING,
        "java",
        OneOf(("java", "measured")),
        Importance.LOW,
        "How partitions are assigned to tasks. `java`: by partition number, like MirrorMaker 2. "
        "`measured`: by load, which is incoming bytes per second and the bytes still to copy; "
        "when one task carries clearly more than the others, a few of its partitions move. Not a "
        "key of MirrorMaker 2.",
    ),
    ConfigKey(
        _INTERVAL,
        ConfigType.INT,
        _MOVE_EVERY_S,
        Range(1),
        Importance.LOW,
        "With `mirror.assignment=measured`: how long, in seconds, load is measured at the start "
        "and after each move before partitions may move to other tasks. Not a key of MirrorMaker "
        "2.",
    ),
)


def move_every_s(parsed: ParsedConfig) -> float | None:
    """Return the shortest interval between moves of partitions; None if they are assigned by
    number."""
    if parsed.string(_ASSIGNMENT) != "measured":
        return None
    return float(parsed.integer(_INTERVAL))
