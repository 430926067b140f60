"""A flag that also wakes whoever waits on a socket, so that closing never waits for a network.

One owner makes it, sets it once and closes it after every thread that waits on it has ended.
"""

from __future__ import annotations

import select
import socket
import threading

__all__ = ["Cancellation"]


class Cancellation:
    """Set once, from any thread; stays set. Its descriptor is readable from then on."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._lock = threading.Lock()
        self._set = False
        self._closed = False

    def cancel(self) -> None:
        """Wake all that wait, now and later. May be called again, and after `close`."""
        with self._lock:
            if not self._set and not self._closed:
                self._writer.send(b"\0")
            self._set = True

    def is_set(self) -> bool:
        return self._set

    def fileno(self) -> int:
        """The descriptor to poll for reading, beside the socket that is waited for."""
        return self._reader.fileno()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`; whether it is set."""
        if not self._set:
            poller = select.poll()
            poller.register(self._reader, select.POLLIN)
            poller.poll(seconds * 1000)
        return self._set

    def close(self) -> None:
        """Give the descriptors back. Nobody may wait any more."""
        with self._lock:
            self._closed = True
            self._reader.close()
            self._writer.close()
