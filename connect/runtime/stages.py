"""Tracks the herder's current activity for the error texts of requests that time out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from connect.clock import SYSTEM_CLOCK, Clock

__all__ = ["Stages"]


@dataclass(slots=True)
class _Stage:
    description: str
    began_ms: int
    ended_ms: int | None = None


class Stages:
    """The current stage, or the last one. One thread enters stages; any thread may read them."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._stage: _Stage | None = None

    @contextmanager
    def during(self, description: str) -> Iterator[None]:
        """Enter a stage for a block. `description` continues "The worker is currently"."""
        stage = _Stage(description, self._clock.now_ms())
        with self._lock:
            outer, self._stage = self._stage, stage
        try:
            yield
        finally:
            with self._lock:
                stage.ended_ms = self._clock.now_ms()
                if outer is not None and outer.ended_ms is None:
                    self._stage = outer

    def summary(self) -> str | None:
        """Return a sentence with Kafka Connect's text, or None before the first stage."""
        with self._lock:
            stage = self._stage
            if stage is None:
                return None
            began, ended = _instant(stage.began_ms), stage.ended_ms
        if ended is None:
            return f"The worker is currently {stage.description}, which began at {began}."
        return (
            f"The last operation the worker completed was {stage.description}, which began at"
            f" {began} and completed at {_instant(ended)}."
        )


def _instant(epoch_ms: int) -> str:
    """Format an instant as Java does: UTC, with milliseconds unless they are 0."""
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    seconds = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{seconds}.{epoch_ms % 1000:03d}Z" if epoch_ms % 1000 else f"{seconds}Z"
