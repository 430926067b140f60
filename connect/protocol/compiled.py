"""The compiled part of this package, if it was built (`setup.py`): `native` is None otherwise.

`native/` has its sources, `_native.pyi` its functions. `batches` and `small_batches` call it and
say what it does.
"""

from __future__ import annotations

from types import ModuleType

__all__ = ["WITHOUT_NATIVE", "native"]

WITHOUT_NATIVE = (
    "The compiled part of this package is missing, so a record in a batch of its own costs 3 to 20"
    " µs of CPU instead of 0.2 to 1, and a transformation of JSON about twice as much as with it;"
    " nothing else changes. Install the wheel for this platform, or"
    " install a C compiler and then the source distribution"
)
"""What its absence costs and how to get it, for logs. docs/contributing/small-batches.md has the
figures."""

native: ModuleType | None
try:
    from connect.protocol import _native as native
except ImportError:
    native = None
