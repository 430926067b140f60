"""Handles Ctrl-C, SIGTERM and a closed terminal.

The first signal asks the demo to end. It interrupts blocking waits; other code checks `Stop.event`.
The second signal ends the process at once, and its guarded children with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from api.cli.processes.stop_signals import StopEvent

__all__ = ["Stop", "StopRequested", "own_foreground"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = "\x1b[?25h"


class StopRequested(BaseException):
    """Interrupts code that cannot check the event. Not derived from Exception, so that no handler
    swallows it."""


class Stop:
    """A stop request. Created and used on the main thread; any thread may wait for `event`."""

    def __init__(self) -> None:
        self.event = StopEvent()
        self._interrupting = False

    def install(self) -> None:
        """Install the signal handlers, for the rest of the process."""
        for number in _SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.event.is_set():
            if sys.stdout.isatty():
                os.write(sys.stdout.fileno(), _SHOW_CURSOR.encode())
            os._exit(128 + number)
        self.event.set()
        if self._interrupting:
            raise StopRequested

    def check(self) -> None:
        """Raise `StopRequested` if a stop was requested."""
        if self.event.is_set():
            raise StopRequested

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Within the block, let a signal raise `StopRequested` on the main thread at any point."""
        self._interrupting = True
        try:
            self.check()
            yield
        finally:
            self._interrupting = False


@contextlib.contextmanager
def own_foreground() -> Iterator[None]:
    """Under `make` on a terminal, become the terminal's foreground process group. Ctrl-C then ends
    only the demo, with status 0; otherwise `make` would report an error.

    Ctrl-Z is ignored within the block, because the shell would not notice the suspension.
    """
    terminal = _terminal() if "MAKELEVEL" in os.environ else None
    if terminal is None:
        yield
        return
    before = os.getpgrp()
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in _JOB_SIGNALS}
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpgrp())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # The terminal or make may be gone.
            os.tcsetpgrp(terminal, before)
        for number, handler in ignored.items():
            signal.signal(number, handler)


_JOB_SIGNALS = (signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP)


def _terminal() -> int | None:
    """Return the terminal's descriptor if we are in its foreground and may create our own process
    group."""
    descriptor = sys.__stdin__.fileno() if sys.__stdin__ is not None else -1
    try:
        if os.tcgetpgrp(descriptor) == os.getpgrp() and os.getpid() != os.getpgrp():
            return descriptor
    except OSError:
        return None
    return None
