"""Resolves class names in configs to plugin classes.

A plugin is registered under its Java class name or its Python one; both work in configs, and so do
the short forms that Java allows: the name's last part, with or without what kind of plugin it is.
A short form that two plugins of a kind share means neither. Other plugins than ours are looked for
(`discovery`) when a name is not known yet, or when all of them are asked for.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from connect.config.providers import ConfigProvider
from connect.data.converters.base import Converter
from connect.data.transforms.base import Predicate, Transformation
from connect.errors import ConfigError
from connect.plugin import Connector
from connect.runtime.plugins.builtin import builtin_plugins, builtin_policies
from connect.runtime.plugins.discovery import ENTRY_POINT_GROUP, discover_plugins
from connect.runtime.plugins.kinds import PLUGIN_BASES, PluginKind, kinds_of
from connect.runtime.plugins.override_policy import ConnectorClientConfigOverridePolicy
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
    """A plugin, the name that configs call it by, and its version."""

    plugin: type
    name: str
    version: str


class PluginRegistry:
    """Names of plugins and their classes. Safe to use from any thread."""

    def __init__(self, *, discover: bool = True, plugin_path: Sequence[str] = ()) -> None:
        """`discover`: whether installed packages and the directories of `plugin_path` are looked
        through for other plugins than ours."""
        self._lock = threading.Lock()
        self._discovery_lock = threading.RLock()
        self._discovered = not discover
        self._plugin_path = tuple(plugin_path)
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
        """Make a class known, under its Python name and under the Java class it stands for.

        `version` is for classes that tell none themselves. `former_names`: dotted Python names that
        the class had in earlier releases, which stored configs may hold. Registering a class again
        changes nothing.
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
        """Have the task class of this name written into task configs as that Java class. It need
        not be loaded for that. `former_names`: dotted Python names that the class had in earlier
        releases, which stored task configs may hold."""
        with self._lock:
            self._task_names[python_name] = java_name
            self._former_task_names[python_name] = frozenset(former_names)

    def names_of_task(self, task: type) -> frozenset[str]:
        """All names that a stored task config may call a task class by."""
        python_name = _python_name(task)
        with self._lock:
            former = self._former_task_names.get(python_name, frozenset())
        return former | {python_name, self.name_of(task)}

    def name_of(self, plugin: type) -> str:
        """The name to write into configs: the Java class where there is one."""
        python_name = _python_name(plugin)
        with self._lock:
            registered = self._plugins.get(plugin)
            java_name = self._task_names.get(python_name)
        if java_name is not None:
            return java_name
        return python_name if registered is None else registered.name

    def version_of(self, plugin: type) -> str:
        """Its version; `undefined` where it has none."""
        with self._lock:
            registered = self._plugins.get(plugin)
        if registered is None:
            return _version(plugin, _python_name(plugin), None)
        return registered.version

    def connector(self, name: str) -> type[Connector]:
        """The connector class of a `connector.class`. Raises `ConfigError`."""
        return self._find(name, Connector, "connector.class")  # type: ignore[type-abstract]

    def converter(self, name: str, key: str) -> type[Converter]:
        """The converter class that the config key `key` names, also where it can only be used for
        headers. Raises `ConfigError`."""
        return self._find(name, Converter, key)  # type: ignore[type-abstract]

    def transformation(self, name: str, key: str) -> type[Transformation]:
        """The transformation class that the config key `key` names. Raises `ConfigError`."""
        return self._find(name, Transformation, key)  # type: ignore[type-abstract]

    def predicate(self, name: str, key: str) -> type[Predicate]:
        """The predicate class that the config key `key` names. Raises `ConfigError`."""
        return self._find(name, Predicate, key)  # type: ignore[type-abstract]

    def config_provider(self, name: str, key: str) -> type[ConfigProvider]:
        """The config provider class that the config key `key` names. Raises `ConfigError`."""
        return self._find(name, ConfigProvider, key)  # type: ignore[type-abstract]

    def override_policy(self, name: str, key: str) -> type[ConnectorClientConfigOverridePolicy]:
        """The policy class that the config key `key` names. Raises `ConfigError`."""
        return self._find(name, ConnectorClientConfigOverridePolicy, key)  # type: ignore[type-abstract]

    def lookup(self, name: str) -> list[type]:
        """All plugins, of whatever kind, that this name may mean."""
        with self._lock:
            found = list(self._classes.get(name, ()))
        if not found:
            self.discover()
            with self._lock:
                found = list(self._classes.get(name, ()))
        return found

    def all(self, kind: PluginKind) -> list[RegisteredPlugin]:
        """Every plugin of a kind, by name."""
        self.discover()
        with self._lock:
            found = [entry for entry in self._plugins.values() if kind in kinds_of(entry.plugin)]
        return sorted(found, key=lambda entry: entry.name)

    def discover(self) -> None:
        """Look for plugins now, if that was not done yet."""
        with self._discovery_lock:
            if not self._discovered:
                self._discovered = True
                discover_plugins(self, self._plugin_path)

    def _find(self, name: str, base: type[T], key: str) -> type[T]:
        found = self._of(name, base)
        if not found:
            self.discover()
            found = self._of(name, base)
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
        known = ", ".join(self._known(base)) or "none"
        raise ConfigError(
            f"Invalid value {name} for configuration {key}: no {base.__name__.lower()} of this name"
            f" is installed; available are: {known}",
            key=key,
            value=name,
        )

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
            # A method of instances: it means something else.
            told = None
        if isinstance(told, str) and told != UNDEFINED_VERSION:
            return told
    if given is not None:
        return given
    return KAFKA_VERSION if name.startswith(_KAFKAS_OWN) else UNDEFINED_VERSION
