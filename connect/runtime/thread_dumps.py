"""Stack traces of threads that plugin code may block."""

from __future__ import annotations

import sys
import threading
import traceback

__all__ = ["error_trace", "where"]

_FRAMES = 12


def where(thread: threading.Thread) -> str:
    """Where the thread is right now, as the text of its innermost frames; to say what hangs."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "(it has ended)"
    return "".join(traceback.format_stack(frame)[-_FRAMES:]).rstrip()


def error_trace(error: BaseException) -> str:
    """The trace text of a FAILED status: the error with its causes and frames."""
    return "".join(traceback.format_exception(error)).rstrip()
