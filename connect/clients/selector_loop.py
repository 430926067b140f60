"""A selector with timers and a mailbox: the loop under raw connections.

One thread owns a `SelectorLoop` and calls `turn` again and again; only `post` and `wake` may be
called from other threads. Callbacks run inside `turn`, one at a time.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
from collections import deque
from collections.abc import Callable

from connect.clients.channel import Channel
from connect.clock import SYSTEM_CLOCK, Clock

__all__ = ["SelectorLoop", "Timer"]

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Timer:
    """A call that is due later. `cancel` makes it not happen."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class SelectorLoop:
    """See the module."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, READ, None)
        self._mail: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._masks: dict[int, int] = {}
        self._closed = False

    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock.monotonic()

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._clock.now_ms()

    def post(self, action: Callable[[], None]) -> None:
        """Run `action` on the loop's thread soon. From any thread; dropped after `close`."""
        self._mail.append(action)
        self.wake()

    def wake(self) -> None:
        """Make a waiting `turn` return. From any thread."""
        try:
            self._wake_writer.send(b"\0")
        except (BlockingIOError, OSError):
            return  # full: the loop is being woken already; closed: nothing to wake

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run `action` once, `seconds` from now."""
        timer = Timer(action)
        heapq.heappush(self._timers, (self.now() + seconds, next(self._order), timer))
        return timer

    def watch(self, channel: Channel, on_event: Callable[[int], None]) -> None:
        """Call `on_event(mask)` whenever the channel's socket is ready."""
        descriptor = channel.fileno()
        mask = READ | (WRITE if channel.wants_write else 0)
        self._selector.register(descriptor, mask, on_event)
        self._masks[descriptor] = mask

    def update(self, channel: Channel) -> None:
        """Watch for writing exactly while the channel has something to write."""
        descriptor = channel.fileno()
        mask = READ | (WRITE if channel.wants_write else 0)
        if self._masks.get(descriptor, mask) != mask:
            key = self._selector.get_key(descriptor)
            self._selector.modify(descriptor, mask, key.data)
            self._masks[descriptor] = mask

    def unwatch(self, channel: Channel) -> None:
        """Stop watching; before the channel is closed."""
        descriptor = channel.fileno()
        if self._masks.pop(descriptor, None) is not None:
            self._selector.unregister(descriptor)

    def turn(self, timeout: float) -> None:
        """Run what is due, wait at most `timeout` seconds for sockets, mail or timers, and run
        what came."""
        self._run_mail()
        self._run_timers()
        if self._mail:
            timeout = 0.0
        elif self._timers:
            timeout = min(timeout, max(0.0, self._timers[0][0] - self.now()))
        for key, mask in self._selector.select(timeout):
            if key.data is None:
                self._empty_wake_pipe()
            elif key.fd in self._masks:  # an earlier event may have closed it
                key.data(mask)
        self._run_mail()
        self._run_timers()

    def _empty_wake_pipe(self) -> None:
        try:
            while self._wake_reader.recv(4096):
                pass
        except BlockingIOError:
            return

    def _run_mail(self) -> None:
        for _ in range(len(self._mail)):
            self._mail.popleft()()

    def _run_timers(self) -> None:
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.action is not None:
                timer.action()

    def close(self) -> None:
        """Release the selector. Channels are closed by their owners."""
        if not self._closed:
            self._closed = True
            self._mail.clear()
            self._timers.clear()
            self._selector.close()
            self._wake_reader.close()
            self._wake_writer.close()
