"""The transformations in a mirror's properties, as far as they rename topics.

The worker runs a connector's transformations (`connect.plugin.RecordTransforms`). Code that names
the flow's topics needs to know which of them change names: the topic refresh, config sync,
checkpoints, audits. They all ask the replication policy, which asks here. Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from connect.config.definition import ConfigDef, ConfigKey, Importance
from connect.config.java_regex import JavaRegexError, compile_java_regex
from connect.config.types import ConfigType, invalid_value
from connect.config.validators import ValidList
from connect.data.converters.base import Converter
from connect.data.transforms.chain import TransformChain
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.plugins.transform_chain import has_transforms, make_chain
from connect.runtime.tasks.record_converters import USES

__all__ = [
    "TRANSFORM_KEY",
    "TRANSFORM_TOPICS",
    "check_converters",
    "flow_chain",
    "plugins_in_use",
    "transformed_by_spark",
    "use_plugins",
]

TRANSFORM_KEY = "mirror.transform"
TRANSFORM_TOPICS = ConfigKey(
    f"{TRANSFORM_KEY}.topics",
    ConfigType.LIST,
    (".*",),
    ValidList(),
    Importance.LOW,
    f"Topics of the source whose records `{TRANSFORM_KEY}` gets: names and regular expressions. "
    "All others travel as bytes. Not a key of MirrorMaker 2.",
)

_PREFIXES = ("transforms", "predicates")
_MOST_CHAINS = 64

_Keys = tuple[tuple[str, str], ...]


class _Chains:
    """The chains of transformations of this process's flows, kept to compute target topics. They
    are never closed, because transformations that only rename topics hold no resources."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plugins: PluginRegistry | None = None
        self._made: dict[_Keys, TransformChain] = {}

    def use(self, plugins: PluginRegistry) -> None:
        with self._lock:
            self._plugins = plugins
            self._made.clear()

    def plugins(self) -> PluginRegistry:
        with self._lock:
            if self._plugins is None:
                self._plugins = PluginRegistry()
            return self._plugins

    def of(self, own: _Keys) -> TransformChain:
        plugins = self.plugins()
        with self._lock:
            found = self._made.get(own)
        if found is None:
            # Not under the lock: a search for plugins may register the mirror's, and so call `use`.
            found = make_chain(plugins, dict(own))
            with self._lock:
                if len(self._made) >= _MOST_CHAINS:
                    self._made.clear()
                self._made[own] = found
        return found


_CHAINS = _Chains()


def use_plugins(plugins: PluginRegistry) -> None:
    """Use the worker's registry to find classes of transformations. Before this call, classes in
    `plugin.path` are not found."""
    _CHAINS.use(plugins)


def plugins_in_use() -> PluginRegistry:
    """Return the registry of `use_plugins`."""
    return _CHAINS.plugins()


def transformed_by_spark(props: Mapping[str, str]) -> Callable[[str], bool] | None:
    """Return whether `mirror.transform` gets the records of a topic of the source; None: there is
    none. Raises `ConfigError`."""
    if not props.get(TRANSFORM_KEY, "").strip():
        return None
    name = TRANSFORM_TOPICS.name
    elements = ConfigDef([TRANSFORM_TOPICS]).parse(props).strings(name)
    try:
        pattern = compile_java_regex("|".join(elements))
    except JavaRegexError as error:
        raise invalid_value(name, ",".join(elements), str(error)) from error
    return lambda topic: pattern.fullmatch(topic) is not None


def check_converters(props: Mapping[str, str], prefix: str) -> None:
    """Raise `ConfigError` if a converter under `prefix` is not known."""
    for use in USES:
        key = f"{prefix}{use}.converter"
        name = props.get(key, "").strip()
        if name:
            _CHAINS.plugins().find(Converter, name, key)


def flow_chain(props: Mapping[str, str]) -> TransformChain | None:
    """Return the chain of these connector properties, for routes only; None: there is none. Raises
    `ConfigError`."""
    if not has_transforms(props):
        return None
    own = {key: value for key, value in props.items() if key.startswith(_PREFIXES)}
    return _CHAINS.of(tuple(sorted(own.items())))
