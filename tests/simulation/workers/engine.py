"""Virtual time, and the processes that live in it.

One heap of events, one thread. Code of the product that waits calls `Engine.block`: events of
others happen meanwhile, nested in the wait. A process that crashes drops its events, one that is
frozen gets them when it wakes up.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from math import ceil
from random import Random

__all__ = ["Crashed", "Engine", "Event", "Process", "ProcessClock", "Stuck"]

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
        self.cut_at = self.cut_until = 0.0
        """In between nothing passes between this process and Kafka."""
        self.skew_ms = 0
        self.busy_until = 0.0
        """When the last turn of its herder's thread ended."""
        self.clock = ProcessClock(self)

    @property
    def frozen(self) -> bool:
        return self.engine.now < self.frozen_until

    @property
    def cut(self) -> bool:
        return self.engine.now < self.cut_until

    @property
    def turning(self) -> bool:
        """Whether its herder's thread is in the middle of a turn."""
        return self in self.engine.turning

    @turning.setter
    def turning(self, turning: bool) -> None:
        if turning:
            self.engine.turning[self] = None
        else:
            self.engine.turning.pop(self, None)
            self.busy_until = self.engine.now

    def freeze(self, seconds: float) -> None:
        self.frozen_until = max(self.frozen_until, self.engine.now + seconds)
        self.woke_at = self.frozen_until

    def cut_off(self, seconds: float) -> None:
        """Let nothing pass for so long from now on."""
        if not self.cut:
            self.cut_at = self.engine.now
        self.cut_until = self.engine.now + seconds

    def until_connected_s(self, step_s: float) -> float:
        """How long code that tries every `step_s` to reach Kafka waits until a try that can work,
        as far as is known; at most a second, as cuts end early."""
        left = min(self.cut_until - self.engine.now, 1.0)
        return step_s * max(1, ceil(left / step_s))

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


class Event:
    """Something that is to happen. `cancel` is for its owner, and may come too late."""

    __slots__ = ("action", "process")

    def __init__(self, action: Callable[[], object], process: Process | None) -> None:
        self.action: Callable[[], object] | None = action
        self.process = process

    def cancel(self) -> None:
        self.action = None


class Engine:
    """The heap of events and the one source of randomness."""

    def __init__(self, seed: int, most_events: int) -> None:
        random.seed(seed)  # the jitter of the product's backoffs
        self.random = Random(seed)
        self.now = 0.0
        self.events = 0
        self.after_event: Callable[[Process | None], None] = lambda process: None
        """The oracle: called after each event, with the process whose code it was."""
        self.turning: dict[Process, None] = {}
        """Processes whose herders are in the middle of a turn."""
        self._most_events = most_events
        self._heap: list[tuple[float, int, Event]] = []
        self._numbers = 0
        self._history: deque[str] = deque(maxlen=_HISTORY)

    @property
    def history(self) -> list[str]:
        return list(self._history)

    def note(self, text: str) -> None:
        """A line of the story."""
        self._history.append(f"{self.now:9.3f} s  {text}")

    def at(
        self, delay: float, action: Callable[[], object], process: Process | None = None
    ) -> Event:
        """Have this happen after a delay. `process`: it is code of this process."""
        event = Event(action, process)
        self._push(self.now + delay if delay > 0.0 else self.now, event)
        return event

    def _push(self, when: float, event: Event) -> None:
        self._numbers += 1
        heapq.heappush(self._heap, (when, self._numbers, event))

    def step(self, limit: float) -> None:
        """The next event, if there is one until `limit`; else time passes until then."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        if not heap or heap[0][0] > limit:
            self.now = max(self.now, limit)
            return
        when, _, event = heapq.heappop(heap)
        if when > self.now:
            self.now = when
        process, action = event.process, event.action
        assert action is not None
        if process is not None:
            if not process.alive:
                return
            if self.now < process.frozen_until:
                self._push(process.frozen_until, event)
                return
        self.events += 1
        if self.events > self._most_events:
            raise Stuck(f"more than {self._most_events} events: something goes on without end")
        if process is None:
            action()
        else:
            try:
                action()
            except Crashed:
                if process.alive:
                    raise
        self.after_event(process)

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
