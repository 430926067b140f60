"""Ctrl-C, SIGTERM and a closed terminal, at any moment.

The first asks the demo to end: what only waits is interrupted, the rest sees `Stop.event`. A second
ends the process at once; its children are guarded and go with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from api.cli.stop_signals import StopEvent

__all__ = ["Stop", "StopRequested", "own_foreground"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = "\x1b[?25h"


class StopRequested(BaseException):
    """Raised out of what cannot look at the event; not an error, so no handler may swallow it."""


class Stop:
    """Made and used on the main thread; `event` may be waited for on any."""

    def __init__(self) -> None:
        self.event = StopEvent()
        self._interrupting = False

    def install(self) -> None:
        """Take over the signals, for the rest of the process."""
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
        """Raise `StopRequested` if an end was asked for."""
        if self.event.is_set():
            raise StopRequested

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Inside, a signal raises `StopRequested` wherever the main thread is."""
        self._interrupting = True
        try:
            self.check()
            yield
        finally:
            self._interrupting = False


@contextlib.contextmanager
def own_foreground() -> Iterator[None]:
    """Under `make` on a terminal: become the terminal's foreground process group, so that Ctrl-C
    ends the demo, which exits with 0, and not `make`, which would call that an error.

    Ctrl-Z is ignored meanwhile: the shell would not see that we were suspended.
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
        with contextlib.suppress(OSError):  # the terminal, or make, may be gone
            os.tcsetpgrp(terminal, before)
        for number, handler in ignored.items():
            signal.signal(number, handler)


_JOB_SIGNALS = (signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP)


def _terminal() -> int | None:
    """The terminal's descriptor if we are in its foreground and may become a group of our own."""
    descriptor = sys.__stdin__.fileno() if sys.__stdin__ is not None else -1
    try:
        if os.tcgetpgrp(descriptor) == os.getpgrp() and os.getpid() != os.getpgrp():
            return descriptor
    except OSError:
        return None
    return None
