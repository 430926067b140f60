"""Which class a class name in a config means.

A plugin is registered under its Java class name or its Python one; both work in configs, and so do
the short forms that Java allows: the name's last part, with or without what kind of plugin it is.
Plugins of installed packages are found through the entry point group `kafka_connect_mirror.plugins`
(each entry point is a function that gets the registry and registers), when a name is not known yet.
"""

from __future__ import annotations

import importlib.metadata
import logging
import threading
from typing import TypeVar

from connect.data.converters.base import Converter
from connect.data.transforms.base import Predicate, Transformation
from connect.errors import ConfigError
from connect.plugin import Connector
from connect.runtime.builtin_plugins import builtin_plugins

__all__ = ["ENTRY_POINT_GROUP", "PluginRegistry"]

_log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "kafka_connect_mirror.plugins"

# The ends of class names that may be left off.
_KINDS: tuple[type, ...] = (Connector, Converter, Transformation, Predicate)

T = TypeVar("T")


class PluginRegistry:
    """Names of plugins and their classes. Safe to use from any thread."""

    def __init__(self, *, discover: bool = True) -> None:
        """`discover`: whether installed packages are looked through for a name not known yet."""
        self._lock = threading.Lock()
        self._discovered = not discover
        self._classes: dict[str, list[type]] = {}
        self._names: dict[type, str] = {}
        for plugin, java_name in builtin_plugins():
            self.register(plugin, java_name)

    def register(self, plugin: type, java_name: str | None = None) -> None:
        """Make a class known, under its Python name and under the Java class it stands for.

        Registering a class again changes nothing.
        """
        python_name = f"{plugin.__module__}.{plugin.__qualname__}"
        names = {python_name, python_name.rpartition(".")[2]}
        if java_name is not None:
            names |= {java_name, java_name.rpartition(".")[2]}
        kinds = [kind.__name__ for kind in _KINDS if issubclass(plugin, kind)]
        names |= {
            short.removesuffix(kind) for short in set(names) if "." not in short for kind in kinds
        }
        with self._lock:
            self._names[plugin] = java_name or python_name
            for name in names - {""}:
                classes = self._classes.setdefault(name, [])
                if plugin not in classes:
                    classes.append(plugin)

    def name_of(self, plugin: type) -> str:
        """The name to write into configs: the Java class where there is one."""
        with self._lock:
            return self._names.get(plugin, f"{plugin.__module__}.{plugin.__qualname__}")

    def connector(self, name: str) -> type[Connector]:
        """The connector class of a `connector.class`. Raises `ConfigError`."""
        return self._find(name, Connector, "connector.class")  # type: ignore[type-abstract]

    def converter(self, name: str, key: str) -> type[Converter]:
        """The converter class that the config key `key` names. Raises `ConfigError`."""
        return self._find(name, Converter, key)  # type: ignore[type-abstract]

    def transformation(self, name: str, key: str) -> type[Transformation]:
        """The transformation class that the config key `key` names. Raises `ConfigError`."""
        return self._find(name, Transformation, key)  # type: ignore[type-abstract]

    def predicate(self, name: str, key: str) -> type[Predicate]:
        """The predicate class that the config key `key` names. Raises `ConfigError`."""
        return self._find(name, Predicate, key)  # type: ignore[type-abstract]

    def _find(self, name: str, kind: type[T], key: str) -> type[T]:
        found = self._of_kind(name, kind)
        if not found and self._discover():
            found = self._of_kind(name, kind)
        if len(found) == 1:
            return found[0]
        if found:
            candidates = ", ".join(sorted(self.name_of(plugin) for plugin in found))
            raise ConfigError(
                f"Invalid value {name} for configuration {key}: more than one class has this short"
                f" name; give the full name: {candidates}",
                key=key,
                value=name,
            )
        known = ", ".join(self._known(kind)) or "none"
        raise ConfigError(
            f"Invalid value {name} for configuration {key}: no {kind.__name__.lower()} of this name"
            f" is installed; available are: {known}",
            key=key,
            value=name,
        )

    def _of_kind(self, name: str, kind: type[T]) -> list[type[T]]:
        with self._lock:
            return [plugin for plugin in self._classes.get(name, ()) if issubclass(plugin, kind)]

    def _known(self, kind: type) -> list[str]:
        with self._lock:
            return sorted(name for plugin, name in self._names.items() if issubclass(plugin, kind))

    def _discover(self) -> bool:
        with self._lock:
            if self._discovered:
                return False
            self._discovered = True
        for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
            try:
                entry.load()(self)
            except Exception:  # noqa: BLE001 - a broken package must not hide the others
                _log.exception("The plugins of %s could not be registered", entry.value)
        return True
