"""A connector's transformations, one after the other, each where its predicate says."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from connect.data.record import ConnectRecord
from connect.data.transforms.base import Predicate, Transformation
from connect.errors import ConnectError, TaskFailed

__all__ = ["TransformChain", "TransformStage"]

_log = logging.getLogger(__name__)

R = TypeVar("R", bound=ConnectRecord)


@dataclass(frozen=True, slots=True)
class TransformStage:
    """One transformation under its alias. `predicate` None: for every record."""

    alias: str
    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: R) -> R | None:
        if self.predicate is not None and self.predicate.test(record) is self.negate:
            return record
        return self.transformation.apply(record)


class TransformChain:
    """Used by one task's thread; its owner closes it once."""

    __slots__ = ("_stages",)

    def __init__(self, stages: Sequence[TransformStage] = ()) -> None:
        self._stages = tuple(stages)

    def __bool__(self) -> bool:
        return bool(self._stages)

    def apply(self, record: R) -> R | None:
        """The record to produce; None: it was dropped. Raises `TaskFailed`, naming the stage."""
        current: R | None = record
        for stage in self._stages:
            if current is None:
                break
            current = _applied(stage, current)
        return current

    def close(self) -> None:
        for stage in self._stages:
            for plugin in (stage.transformation, stage.predicate):
                try:
                    if plugin is not None:
                        plugin.close()
                except Exception:  # noqa: BLE001 - plugin code; the others are closed all the same
                    _log.exception("Closing transformation %s failed", stage.alias)


def _applied(stage: TransformStage, record: R) -> R | None:
    try:
        return stage.apply(record)
    except Exception as error:
        name = type(stage.transformation).__qualname__
        reason = str(error) if isinstance(error, ConnectError) else repr(error)
        raise TaskFailed(
            f"Stage TRANSFORMATION failed: transforms.{stage.alias} ({name}) could not take a"
            f" record for topic {record.topic}: {reason}"
        ) from error
