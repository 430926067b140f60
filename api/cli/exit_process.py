"""The end of a command's process."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn

__all__ = ["leave"]

# As Python's own, where what was printed could not be written.
_EXIT_UNWRITTEN = 120


def leave(code: int) -> NoReturn:
    """End the process with what Python registered for its end, and nothing of the C libraries'.

    A question to a cluster that does not answer outlives a stop, on a daemon thread and with
    librdkafka's threads beside it. An ordinary exit frees OpenSSL's tables under these: about one
    stop of 70 beside such a cluster then ended with SIGABRT or SIGSEGV instead of its exit code.
    Call it on the main thread, once everything is stored and closed that can be.
    """
    # Logging writes its last lines, and children end.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Nobody reads any more, so there is nobody to tell but the parent.
            code = code or _EXIT_UNWRITTEN
    os._exit(code)
