"""Virtual time, and the processes that live in it.

One heap of events, one thread. Code of the product that waits calls `Engine.block`: events of
others happen meanwhile, nested in the wait. A process that crashes drops its events, one that is
frozen gets them when it wakes up.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random

__all__ = ["Crashed", "Engine", "Process", "ProcessClock", "Stuck"]

_HISTORY = 600
_EPOCH_MS = 1_700_000_000_000


class Crashed(BaseException):
    """The process died in the middle of what it was doing. No `except Exception` sees it."""


class Stuck(BaseException):
    """Events go on without end, or code that must not wait waits."""


class Process:
    """One run of one worker's process. A restart makes another object of the same name."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.alive = True
        self.frozen_until = 0.0
        self.woke_at = 0.0
        self.cut_until = 0.0
        """Until then nothing passes between this process and Kafka."""
        self.skew_ms = 0
        self.turning = False
        """Whether its herder's thread is in the middle of a turn."""
        self.clock = ProcessClock(self)

    @property
    def frozen(self) -> bool:
        return self.engine.now < self.frozen_until

    @property
    def cut(self) -> bool:
        return self.engine.now < self.cut_until

    def freeze(self, seconds: float) -> None:
        self.frozen_until = max(self.frozen_until, self.engine.now + seconds)
        self.woke_at = self.frozen_until

    def check(self) -> None:
        """Raises `Crashed` in code of a dead process."""
        if not self.alive:
            raise Crashed

    def run(self, function: Callable[[], object]) -> None:
        """Run code of this process; its crash ends there."""
        try:
            self.check()
            function()
        except Crashed:
            if self.alive:
                raise


class ProcessClock:
    """The clock of one process. The wall clock may jump, the other never does."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def monotonic(self) -> float:
        return self._process.engine.now

    def now_ms(self) -> int:
        return _EPOCH_MS + round(self._process.engine.now * 1000) + self._process.skew_ms


class Engine:
    """The heap of events and the one source of randomness."""

    def __init__(self, seed: int, most_events: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.events = 0
        self.after_event: Callable[[], None] = lambda: None
        """The oracle: called after each event."""
        self._most_events = most_events
        self._heap: list[tuple[float, int, Process | None, Callable[[], object]]] = []
        self._numbers = 0
        self._history: deque[str] = deque(maxlen=_HISTORY)

    @property
    def history(self) -> list[str]:
        return list(self._history)

    def note(self, text: str) -> None:
        """A line of the story."""
        self._history.append(f"{self.now:9.3f} s  {text}")

    def at(self, delay: float, event: Callable[[], object], process: Process | None = None) -> None:
        """Have this happen after a delay. `process`: it is code of this process."""
        self._push(self.now + max(0.0, delay), event, process)

    def _push(self, when: float, event: Callable[[], object], process: Process | None) -> None:
        self._numbers += 1
        heapq.heappush(self._heap, (when, self._numbers, process, event))

    def step(self, limit: float) -> None:
        """The next event, if there is one until `limit`; else time passes until then."""
        if not self._heap or self._heap[0][0] > limit:
            self.now = max(self.now, limit)
            return
        when, _, process, event = heapq.heappop(self._heap)
        self.now = max(self.now, when)
        if process is not None:
            if not process.alive:
                return
            if process.frozen:
                self._push(process.frozen_until, event, process)
                return
        self.events += 1
        if self.events > self._most_events:
            raise Stuck(f"more than {self._most_events} events: something goes on without end")
        if process is None:
            event()
        else:
            process.run(event)
        self.after_event()

    def run_until(self, when: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Let things happen until then, or until `done`. Whether it was done."""
        while self.now < when and not done():
            self.step(when)
        return done()

    def block(self, process: Process, deadline: float, done: Callable[[], bool]) -> bool:
        """Code of this process waits. Whether what it waits for has happened. Raises `Crashed`."""
        while True:
            process.check()
            if process.frozen:
                self.step(process.frozen_until)
            elif done():
                return True
            elif self.now >= deadline:
                return False
            else:
                self.step(deadline)
