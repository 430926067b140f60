"""Stack traces of threads that run plugin code."""

from __future__ import annotations

import sys
import threading
import traceback

__all__ = ["error_trace", "where"]

_FRAMES = 12


def where(thread: threading.Thread) -> str:
    """Return the innermost frames of the thread as text, to show where it hangs."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "(it has ended)"
    return "".join(traceback.format_stack(frame)[-_FRAMES:]).rstrip()


def error_trace(error: BaseException) -> str:
    """Return the trace text of a FAILED status: the error with its causes and frames."""
    return "".join(traceback.format_exception(error)).rstrip()
