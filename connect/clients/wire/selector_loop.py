"""An event loop for raw connections: a selector with timers and a mailbox.

One thread owns a `SelectorLoop` and calls `turn` repeatedly; only `post` and `wake` may be called
from other threads. Callbacks run inside `turn`, one at a time.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable

from connect.clients.wire.channel import Channel
from connect.clients.wire.poller import READ, WRITE, Poller, SystemPoller
from connect.clock import SYSTEM_CLOCK, Clock

__all__ = ["READ", "WRITE", "SelectorLoop", "Timer"]


def _nothing() -> None:
    """The default of `after_each`."""


class Timer:
    """A scheduled call. `cancel` prevents it."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class SelectorLoop:
    """An event loop. Its owner's thread calls everything except `post` and `wake`."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK, poller: Poller | None = None) -> None:
        """Use `poller` to wait for sockets, by default the operating system's. `close` closes
        it.
        """
        self._clock = clock
        self._poller = poller or SystemPoller()
        self._mail: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._masks: dict[int, int] = {}
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._after_each: Callable[[], None] = _nothing
        self._closed = False
        self.polled_at = clock.monotonic()
        """When sockets were last polled (monotonic seconds). All that they had by then is handled
        once `turn` returns; callbacks that take long delay what came later."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._clock.monotonic()

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self._clock.now_ms()

    def post(self, action: Callable[[], None]) -> None:
        """Run `action` on the loop's thread soon. Thread-safe; dropped after `close`."""
        self._mail.append(action)
        self.wake()

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` after the current events. Call this only on the loop's own thread.

        Unlike `post` it does not end a wait.
        """
        self._mail.append(action)

    def wake(self) -> None:
        """Make a waiting `turn` return. Thread-safe."""
        self._poller.wake()

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run `action` once, `seconds` from now."""
        timer = Timer(action)
        heapq.heappush(self._timers, (self.now() + seconds, next(self._order), timer))
        return timer

    def after_each(self, action: Callable[[], None]) -> None:
        """Call `action` after each callback of this loop, before the next one."""
        self._after_each = action

    def watch(self, channel: Channel, on_event: Callable[[int], None]) -> None:
        """Call `on_event(mask)` whenever the channel's socket is ready."""
        assert channel.fileno() not in self._masks, "the channel is watched already"
        mask = READ | (WRITE if channel.wants_write else 0)
        self.watch_socket(channel.fileno(), mask, on_event)

    def watch_socket(self, descriptor: int, mask: int, on_event: Callable[[int], None]) -> None:
        """Call `on_event` whenever the socket has events of `mask`; with mask 0 not any more."""
        known = self._masks.get(descriptor, 0)
        if not known and mask:
            self._poller.register(descriptor, mask)
        elif known and not mask:
            self._poller.unregister(descriptor)
        elif known != mask:
            self._poller.modify(descriptor, mask)
        if mask:
            self._masks[descriptor], self._handlers[descriptor] = mask, on_event
        elif known:
            del self._masks[descriptor], self._handlers[descriptor]

    def update(self, channel: Channel) -> None:
        """Watch for writability only while the channel has bytes to write."""
        descriptor = channel.fileno()
        mask = READ | (WRITE if channel.wants_write else 0)
        if self._masks.get(descriptor, mask) != mask:
            self._poller.modify(descriptor, mask)
            self._masks[descriptor] = mask

    def unwatch(self, channel: Channel) -> None:
        """Stop watching a channel. Call this before the channel is closed."""
        self.watch_socket(channel.fileno(), 0, lambda _: None)

    def turn(self, timeout: float) -> None:
        """Run one iteration.

        Runs due callbacks, polls sockets for at most `timeout` seconds, then handles ready sockets,
        posted calls and timers.
        """
        self._run_mail()
        self._run_timers()
        ready = self._poller.select(min(timeout, self.due_in_s()))
        self.polled_at = self.now()
        for descriptor, mask in ready:
            on_event = self._handlers.get(descriptor)
            if on_event is not None:  # An earlier event may have closed the channel.
                on_event(mask)
                self._after_each()
        self._run_mail()
        self._run_timers()

    def descriptor(self) -> int | None:
        """Return a file descriptor that is readable while `turn` has events or posted calls to
        handle; None if the poller has none.
        """
        return self._poller.descriptor()

    def due_in_s(self) -> float:
        """Return the seconds until `turn` has a callback to run, whatever the descriptor says."""
        if self._mail:
            return 0.0
        if self._timers:
            return max(0.0, self._timers[0][0] - self.now())
        return math.inf

    def _run_mail(self) -> None:
        for _ in range(len(self._mail)):
            self._mail.popleft()()
            self._after_each()

    def _run_timers(self) -> None:
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.action is not None:
                timer.action()
                self._after_each()

    def close(self) -> None:
        """Release the poller, and drop posted calls and timers. Owners close their channels."""
        if not self._closed:
            self._closed = True
            self._mail.clear()
            self._timers.clear()
            self._poller.close()
