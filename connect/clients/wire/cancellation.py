"""A flag that also wakes threads that wait on sockets, so that closing never waits for the network.

The owner creates it, sets it once, and closes it after all waiting threads have ended.
"""

from __future__ import annotations

import select
import socket
import threading

__all__ = ["Cancellation"]


class Cancellation:
    """A flag that any thread can set, and that is never cleared. Its descriptor is readable once it
    is set."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._lock = threading.Lock()
        self._set = False
        self._closed = False

    def cancel(self) -> None:
        """Set the flag and wake all waiting threads. May be called again, and after `close`."""
        with self._lock:
            if not self._set and not self._closed:
                self._writer.send(b"\0")
            self._set = True

    def is_set(self) -> bool:
        return self._set

    def fileno(self) -> int:
        """Return a descriptor to poll for reading together with a socket."""
        return self._reader.fileno()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`. Return whether the flag is set."""
        if not self._set:
            poller = select.poll()
            poller.register(self._reader, select.POLLIN)
            poller.poll(seconds * 1000)
        return self._set

    def close(self) -> None:
        """Close the descriptors. No thread may wait any more."""
        with self._lock:
            self._closed = True
            self._reader.close()
            self._writer.close()
