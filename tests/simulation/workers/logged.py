"""Errors that the product logs and survives, though they are defects.

A herder logs what a step raises and goes on. In a simulated run only a `ConnectError` may be the
cause; anything else is a defect, of the product or of a class that stands for one of its.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Iterator

from connect.errors import ConnectError
from tests.simulation.workers.ledger import Broken

__all__ = ["defects_end_the_run"]

_PRODUCT = logging.getLogger("connect")


class _Refuser(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, ConnectError):
            return
        trace = "".join(traceback.format_exception(error))
        raise Broken(f"{record.getMessage()}\n{trace}")


@contextlib.contextmanager
def defects_end_the_run() -> Iterator[None]:
    """Within it a logged error that is no `ConnectError` raises `Broken`. Prints nothing."""
    disabled, propagate, level = logging.root.manager.disable, _PRODUCT.propagate, _PRODUCT.level
    refuser = _Refuser()
    logging.disable(logging.INFO)
    _PRODUCT.addHandler(refuser)
    _PRODUCT.propagate = False
    _PRODUCT.setLevel(logging.WARNING)
    try:
        yield
    finally:
        _PRODUCT.setLevel(level)
        _PRODUCT.propagate = propagate
        _PRODUCT.removeHandler(refuser)
        logging.disable(disabled)
