"""The compiled part of this package, if it was built (`setup.py`): `native` is None otherwise.

`native/` has its sources, `_native.pyi` its functions. `json_codec`, `java_map` and JsonConverter
call it, and do the same without it, more slowly.
"""

from __future__ import annotations

from types import ModuleType

__all__ = ["native"]

native: ModuleType | None
try:
    from connect.data import _native as native
except ImportError:
    native = None
