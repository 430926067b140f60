"""Resolves class names in configs to plugin classes.

A plugin is registered under its Python class name, and a Java name if it replaces a Java class.
Both work in configs, and so do Java's short forms: the last part of the name, with or without the
kind of plugin at its end. A short form that fits two plugins of a kind is ambiguous and refused.
Third-party plugins are discovered (`discovery`) when a name is unknown, or when all plugins are
requested.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from connect.config.types import invalid_value
from connect.plugin import Connector
from connect.runtime.plugins.builtin import builtin_plugins, builtin_policies
from connect.runtime.plugins.discovery import ENTRY_POINT_GROUP, discover_plugins
from connect.runtime.plugins.kinds import PLUGIN_BASES, PluginKind, kinds_of
from connect.version import KAFKA_VERSION

__all__ = [
    "ENTRY_POINT_GROUP",
    "UNDEFINED_VERSION",
    "PluginKind",
    "PluginRegistry",
    "RegisteredPlugin",
]

UNDEFINED_VERSION = "undefined"
_KAFKAS_OWN = "org.apache.kafka."

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A plugin with its name in configs and its version."""

    plugin: type
    name: str
    version: str


class PluginRegistry:
    """Plugin names and classes. Thread-safe."""

    def __init__(self, *, discover: bool = True, plugin_path: Sequence[str] = ()) -> None:
        """Create a registry. `discover` allows searching packages and `plugin_path` for plugins."""
        self._lock = threading.Lock()
        self._discovery_lock = threading.RLock()
        self._discovered = not discover
        self.plugin_path = tuple(plugin_path)
        self._classes: dict[str, list[type]] = {}
        self._plugins: dict[type, RegisteredPlugin] = {}
        self._task_names: dict[str, str] = {}
        self._former_task_names: dict[str, frozenset[str]] = {}
        for plugin, java_name in (*builtin_plugins(), *builtin_policies()):
            self.register(plugin, java_name)

    def register(
        self,
        plugin: type,
        java_name: str | None = None,
        *,
        version: str | None = None,
        former_names: Collection[str] = (),
    ) -> None:
        """Register a class under its Python name and the Java class it replaces.

        `version` is for classes without a version method. `former_names` are dotted Python names
        from earlier releases, which stored configs may contain. Registering a class again changes
        nothing.
        """
        python_name = _python_name(plugin)
        names = {python_name, python_name.rpartition(".")[2], *former_names}
        if java_name is not None:
            names |= {java_name, java_name.rpartition(".")[2]}
        ends = [base.__name__ for base in PLUGIN_BASES if _is(plugin, base)]
        names |= {
            short.removesuffix(end) for short in set(names) if "." not in short for end in ends
        }
        name = java_name or python_name
        registered = RegisteredPlugin(plugin, name, _version(plugin, name, version))
        with self._lock:
            if plugin in self._plugins and java_name is None:
                return
            self._plugins[plugin] = registered
            for name in names - {""}:
                classes = self._classes.setdefault(name, [])
                if plugin not in classes:
                    classes.append(plugin)

    def name_task(
        self, python_name: str, java_name: str, *, former_names: Collection[str] = ()
    ) -> None:
        """Set the Java name under which task configs store this task class, without loading it.

        `former_names` are dotted Python names from earlier releases, which stored task configs may
        contain.
        """
        with self._lock:
            self._task_names[python_name] = java_name
            self._former_task_names[python_name] = frozenset(former_names)

    def names_of_task(self, task: type) -> frozenset[str]:
        """Return all names of a task class that stored task configs may contain."""
        python_name = _python_name(task)
        with self._lock:
            former = self._former_task_names.get(python_name, frozenset())
        return former | {python_name, self.name_of(task)}

    def name_of(self, plugin: type) -> str:
        """Return the class name for configs: the Java class if there is one."""
        python_name = _python_name(plugin)
        with self._lock:
            registered = self._plugins.get(plugin)
            java_name = self._task_names.get(python_name)
        if java_name is not None:
            return java_name
        return python_name if registered is None else registered.name

    def version_of(self, plugin: type) -> str:
        """Return the plugin's version, or `undefined`."""
        with self._lock:
            registered = self._plugins.get(plugin)
        if registered is None:
            return _version(plugin, _python_name(plugin), None)
        return registered.version

    def connector(self, name: str) -> type[Connector]:
        """Return the class of a `connector.class` value. Raises `ConfigError`."""
        return self.find(Connector, name, "connector.class")

    def find(self, base: type[T], name: str, key: str) -> type[T]:
        """Return the class of this kind that config key `key` names. Raises `ConfigError`."""
        found = self._of(name, base)
        if not found:
            self.discover()
            found = self._of(name, base)
        if len(found) == 1:
            return found[0]
        if found:
            candidates = ", ".join(sorted(self.name_of(plugin) for plugin in found))
            raise invalid_value(
                key,
                name,
                f"more than one class has this short name; give the full name: {candidates}",
            )
        known = ", ".join(self._known(base)) or "none"
        raise invalid_value(
            key,
            name,
            f"no {base.__name__.lower()} of this name is installed; available are: {known}",
        )

    def lookup(self, name: str) -> list[type]:
        """Return all plugins of any kind that this name may mean."""
        with self._lock:
            found = list(self._classes.get(name, ()))
        if not found:
            self.discover()
            with self._lock:
                found = list(self._classes.get(name, ()))
        return found

    def all(self, kind: PluginKind) -> list[RegisteredPlugin]:
        """Return every plugin of a kind, sorted by name."""
        self.discover()
        with self._lock:
            found = [entry for entry in self._plugins.values() if kind in kinds_of(entry.plugin)]
        return sorted(found, key=lambda entry: entry.name)

    def discover(self) -> None:
        """Search for plugins, if that was not done yet."""
        with self._discovery_lock:
            if not self._discovered:
                self._discovered = True
                discover_plugins(self, self.plugin_path)

    def _of(self, name: str, base: type[T]) -> list[type[T]]:
        with self._lock:
            return [plugin for plugin in self._classes.get(name, ()) if _is(plugin, base)]

    def _known(self, base: type) -> list[str]:
        with self._lock:
            return sorted(entry.name for entry in self._plugins.values() if _is(entry.plugin, base))


def _is(plugin: type, base: type) -> bool:
    return inspect.isclass(plugin) and issubclass(plugin, base)


def _python_name(plugin: type) -> str:
    return f"{plugin.__module__}.{plugin.__qualname__}"


def _version(plugin: type, name: str, given: str | None) -> str:
    own = getattr(plugin, "version", None)
    if callable(own):
        try:
            told = own()
        except TypeError:
            # A `version` method of instances has another meaning.
            told = None
        if isinstance(told, str) and told != UNDEFINED_VERSION:
            return told
    if given is not None:
        return given
    return KAFKA_VERSION if name.startswith(_KAFKAS_OWN) else UNDEFINED_VERSION
