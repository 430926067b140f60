"""Wait until one of many sockets is ready, or until another thread ends the wait.

`SystemPoller` uses the operating system's selector. A simulation passes its own `Poller` to
`SelectorLoop`, which then neither opens a socket nor sleeps.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterable
from typing import Protocol

__all__ = ["READ", "WRITE", "Poller", "SystemPoller"]

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Poller(Protocol):
    """A selector. Masks are `READ`, `WRITE` or both. Only `wake` may be called from other
    threads.
    """

    def register(self, descriptor: int, mask: int) -> None:
        """Start to watch a socket."""

    def modify(self, descriptor: int, mask: int) -> None:
        """Change the events of a watched socket."""

    def unregister(self, descriptor: int) -> None:
        """Stop watching a socket. Call this before the socket is closed."""

    def select(self, timeout: float) -> Iterable[tuple[int, int]]:
        """Wait at most `timeout` seconds. Return the sockets that are ready, each with its mask."""

    def wake(self) -> None:
        """End the current or next `select`. Does nothing after `close`."""

    def descriptor(self) -> int | None:
        """Return a file descriptor that is readable while `select` would return at once.

        Another poller can watch it. None: this kind of poller has none.
        """

    def close(self) -> None:
        """Release the poller's resources. Watched sockets stay open."""


class SystemPoller:
    """A poller with the operating system's selector and a socket pair for wake-ups."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._wake_descriptor = self._wake_reader.fileno()
        self._selector.register(self._wake_reader, READ)

    def register(self, descriptor: int, mask: int) -> None:
        self._selector.register(descriptor, mask)

    def modify(self, descriptor: int, mask: int) -> None:
        self._selector.modify(descriptor, mask)

    def unregister(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def select(self, timeout: float) -> list[tuple[int, int]]:
        ready: list[tuple[int, int]] = []
        for key, mask in self._selector.select(timeout):
            if key.fd == self._wake_descriptor:
                self._empty_wake_pipe()
            else:
                ready.append((key.fd, mask))
        return ready

    def wake(self) -> None:
        try:
            self._wake_writer.send(b"\0")
        except OSError:
            return  # If the pair is full, a wake-up is pending; if it is closed, nothing needs one.

    def descriptor(self) -> int | None:
        # Selectors of epoll and kqueue have one; those of poll and select have not.
        fileno: Callable[[], int] | None = getattr(self._selector, "fileno", None)
        return None if fileno is None else fileno()

    def _empty_wake_pipe(self) -> None:
        try:
            while self._wake_reader.recv(4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()
