"""A connector's transformations in order, each with its predicate."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from connect.data.record import ConnectRecord
from connect.data.transforms.base import Predicate, Transformation

__all__ = ["TransformChain", "TransformStage"]

_log = logging.getLogger(__name__)

R = TypeVar("R", bound=ConnectRecord)


@dataclass(frozen=True, slots=True)
class TransformStage:
    """One transformation with its alias. `predicate` None: it applies to every record.

    `class_name` is the class name used in configs, Java's if there is one.
    """

    alias: str
    transformation: Transformation
    class_name: str
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: R) -> R | None:
        """Return the transformed record, or None if it was dropped."""
        if self.predicate is not None and self.predicate.test(record) is self.negate:
            return record
        return self.transformation.apply(record)


class TransformChain:
    """The stages in order. Used by one task's thread; its owner closes it once."""

    __slots__ = ("_stages",)

    def __init__(self, stages: Sequence[TransformStage] = ()) -> None:
        self._stages = tuple(stages)

    def __bool__(self) -> bool:
        return bool(self._stages)

    def __iter__(self) -> Iterator[TransformStage]:
        return iter(self._stages)

    def close(self) -> None:
        for stage in self._stages:
            for plugin in (stage.transformation, stage.predicate):
                try:
                    if plugin is not None:
                        plugin.close()
                except Exception:  # noqa: BLE001 - plugin code; the others are closed all the same
                    _log.exception("Closing transformation %s failed", stage.alias)
