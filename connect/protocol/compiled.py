"""The compiled part of this package, if it was built (`setup.py`): `native` is None otherwise.

`native/` has its sources, `_native.pyi` its functions. `batches` and `small_batches` call it and
say what it does.
"""

from __future__ import annotations

from types import ModuleType

__all__ = ["native"]

native: ModuleType | None
try:
    from connect.protocol import _native as native
except ImportError:
    native = None
