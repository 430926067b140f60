"""Ends a command's process."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn

__all__ = ["leave"]

# Python's own exit code when stdout could not be flushed.
_EXIT_UNWRITTEN = 120


def leave(code: int) -> NoReturn:
    """End the process: run Python's exit handlers, but skip the cleanup of C libraries.

    A pending request to an unreachable cluster outlives a stop, on a daemon thread and librdkafka's
    threads. An ordinary exit frees OpenSSL's tables while those threads run. With such a cluster,
    about one stop in 70 then ended with SIGABRT or SIGSEGV instead of its exit code. Call this on
    the main thread, after everything has been stored and closed.
    """
    # Exit handlers flush logging and end child processes.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # The reader of stdout is gone, so only the exit code can report the failure.
            code = code or _EXIT_UNWRITTEN
    os._exit(code)
