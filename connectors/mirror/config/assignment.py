"""Keys for the assignment of partitions to tasks. Not keys of MirrorMaker 2."""

from __future__ import annotations

from dataclasses import dataclass

from connect.config.definition import ConfigKey, Importance, ParsedConfig
from connect.config.types import ConfigType
from connect.config.validators import OneOf, Range

__all__ = ["ASSIGNMENT_KEYS", "AssignmentConfig"]

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


@dataclass(frozen=True, slots=True)
class AssignmentConfig:
    """How a source connector assigns partitions to its tasks."""

    move_every_s: float | None
    """The shortest interval between load-based moves of partitions; None: no such moves."""

    @classmethod
    def of(cls, parsed: ParsedConfig) -> AssignmentConfig:
        measured = parsed.string(_ASSIGNMENT) == "measured"
        return cls(move_every_s=float(parsed.integer(_INTERVAL)) if measured else None)
