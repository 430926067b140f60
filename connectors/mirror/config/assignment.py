"""The keys that say how partitions are dealt out to tasks. Not keys of MirrorMaker 2."""

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
        "How partitions are dealt out to tasks. `java`: by their number, as MirrorMaker 2 does. "
        "`measured`: by the bytes a second that come into them and the bytes that wait in them; "
        "where one task has come to carry clearly more than the others a few partitions move. Not "
        "a key of MirrorMaker 2.",
    ),
    ConfigKey(
        _INTERVAL,
        ConfigType.INT,
        _MOVE_EVERY_S,
        Range(1),
        Importance.LOW,
        "With `mirror.assignment=measured`: for how long it is measured, in seconds, before "
        "partitions may move to other tasks, and again after each move. Not a key of MirrorMaker "
        "2.",
    ),
)


def move_every_s(parsed: ParsedConfig) -> float | None:
    """How often partitions may move at most; None: they are dealt out by their number."""
    if parsed.string(_ASSIGNMENT) != "measured":
        return None
    return float(parsed.integer(_INTERVAL))
