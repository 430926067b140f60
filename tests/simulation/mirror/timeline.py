"""Time, chance and history of one simulated run, and the clocks of its workers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.kafka.virtual_time import VirtualTime

__all__ = ["Life", "Moved", "Timeline", "WorkerClock", "WorkerKilled"]

_MOST_LINES = 400


class Timeline:
    """What all simulated parts share."""

    def __init__(self, time: VirtualTime, chance: Random) -> None:
        self.time = time
        self.random = chance
        self.lines: list[str] = []
        """The history, oldest first."""

    def monotonic(self) -> float:
        return self.time.monotonic()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run `action` once, `seconds` from now."""
        self.time.after(seconds, action)

    def wait(self, done: Callable[[], bool], seconds: float) -> bool:
        """Let the world go on until `done`, for at most `seconds`; whether it is done."""
        until = self.time.monotonic() + seconds
        while not done():
            if self.time.next_at() > until:
                self.time.run_until(until)
                return done()
            self.time.run_next()
        return True

    def note(self, text: str) -> None:
        """Add a line to the history."""
        self.lines.append(f"{self.time.monotonic() - 100:9.3f} s  {text}")
        if len(self.lines) > 2 * _MOST_LINES:
            del self.lines[:_MOST_LINES]


class Moved:
    """A `threading.Event` that waits in virtual time."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float) -> bool:
        return self._timeline.wait(lambda: self._is_set, timeout)


class WorkerKilled(BaseException):
    """The process of a worker ends here: nothing of it runs any more."""


class Life:
    """How long a worker lives: it may die whenever it looks at its clock, or writes."""

    def __init__(self) -> None:
        self.steps = 0
        """How often it could have died."""
        self.running = False
        """Its thread has the processor."""
        self._dies_at: int | None = None

    def end_after(self, steps: int) -> None:
        """Die after so many more looks."""
        self._dies_at = self.steps + steps

    def step(self) -> None:
        """Raises `WorkerKilled` when it is time."""
        if not self.running:
            return
        self.steps += 1
        if self._dies_at is not None and self.steps >= self._dies_at:
            raise WorkerKilled


class WorkerClock:
    """The clock of one worker's host; its wall clock is wrong by `skew_ms`."""

    def __init__(self, timeline: Timeline, life: Life, skew_ms: int) -> None:
        self._time = timeline.time
        self._life = life
        self.skew_ms = skew_ms

    def monotonic(self) -> float:
        self._life.step()
        return self._time.monotonic()

    def now_ms(self) -> int:
        self._life.step()
        return self._time.now_ms() + self.skew_ms
