"""Lets `kafka.protocol` be imported without kafka-python's clients.

The product needs only the protocol classes of kafka-python. The package `kafka` imports producer,
consumer and admin client first: 100 modules and 6 MB in every process. `defer_clients` puts a
package in its place that runs kafka-python's own `__init__` at the first use of one of its names,
so that `from kafka import KafkaConsumer` in a plugin works as before.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType

__all__ = ["defer_clients"]

_NAME = "kafka"


class _Deferred(ModuleType):
    """The package `kafka`, which runs its own `__init__` when one of its names is first used.
    Thread-safe."""

    def __init__(self) -> None:
        super().__init__(_NAME)
        self._lock = threading.RLock()
        self._began = False

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError(name)  # The import system asks for optional ones.
        # Without the lock: a thread that imports a part, and a part of it, must not wait for one
        # that imports everything and waits for the part.
        if importlib.util.find_spec(f"{_NAME}.{name}") is not None:
            return importlib.import_module(f"{_NAME}.{name}")
        with self._lock:
            self._load()
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}") from None

    def _load(self) -> None:
        """Run the package's own `__init__`, once. Called with the lock held; importing the clients
        comes back here on the same thread."""
        if not self._began:
            self._began = True
            assert self.__spec__ is not None
            assert self.__spec__.loader is not None
            self.__spec__.loader.exec_module(self)


def defer_clients() -> None:
    """Call it before the first import of `kafka`; later, and without kafka-python, it does
    nothing."""
    spec = None if _NAME in sys.modules else importlib.util.find_spec(_NAME)
    if spec is None or spec.submodule_search_locations is None:
        return
    package = _Deferred()
    package.__spec__, package.__loader__ = spec, spec.loader
    package.__path__ = spec.submodule_search_locations
    package.__file__, package.__package__ = spec.origin, _NAME
    sys.modules[_NAME] = package
