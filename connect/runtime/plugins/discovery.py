"""Discovers third-party plugins in installed packages and in the directories of `plugin.path`.

* Installed packages list their plugins in the entry point group `kafka_connect_mirror.plugins`. An
  entry point is a plugin class, or a function that registers plugins with the registry it gets.
* A directory of `plugin.path` holds Python packages, modules and wheels, or directories of them. It
  is added to `sys.path`. Every plugin class that a module or a package's `__init__` defines, or
  imports from its own submodules, is registered, and so are its entry points.

A Python process has one set of modules, so plugins that need different releases of the same library
cannot run in one worker. A plugin that cannot be loaded is logged and skipped.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import logging
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from connect.errors import ConfigError
from connect.runtime.plugins.kinds import kinds_of

if TYPE_CHECKING:
    from connect.runtime.plugins.registry import PluginRegistry

__all__ = ["ENTRY_POINT_GROUP", "discover_plugins"]

_log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "kafka_connect_mirror.plugins"


def discover_plugins(registry: PluginRegistry, plugin_path: Sequence[str]) -> None:
    """Register the plugins of all installed packages and of the directories of `plugin_path`."""
    for location in _locations(plugin_path):
        _register_location(registry, location)
    for distribution in importlib.metadata.distributions():
        _register_entry_points(registry, distribution)


def _locations(plugin_path: Sequence[str]) -> Iterator[Path]:
    """Yield the directories with packages or modules, and the wheels, to add to `sys.path`."""
    for text in plugin_path:
        directory = Path(text).expanduser().absolute()
        if not directory.is_dir():
            _log.warning("plugin.path: ignoring %s, which is not a directory", text)
            continue
        if any(_module_names(directory)):
            yield directory
        for child in sorted(directory.iterdir()):
            if child.suffix == ".whl":
                yield child
            elif child.is_dir() and not _is_package(child) and any(_module_names(child)):
                yield child
                yield from sorted(child.glob("*.whl"))
            elif child.is_dir() and not _is_package(child):
                yield from sorted(child.glob("*.whl"))


def _is_package(directory: Path) -> bool:
    return (directory / "__init__.py").is_file()


def _module_names(location: Path) -> Iterator[str]:
    """Yield the top-level modules and packages of a directory or wheel."""
    if location.suffix == ".whl":
        with zipfile.ZipFile(location) as wheel:
            parts = [name.split("/") for name in wheel.namelist()]
        yield from sorted({part[0] for part in parts if part[1:] == ["__init__.py"]})
        yield from sorted(part[0][:-3] for part in parts if len(part) == 1 and _is_source(part[0]))
        return
    for child in sorted(location.iterdir()):
        if child.is_dir() and _is_package(child) and child.name.isidentifier():
            yield child.name
        elif child.is_file() and _is_source(child.name):
            yield child.stem


def _is_source(name: str) -> bool:
    return name.endswith(".py") and name[:-3].isidentifier() and name != "setup.py"


def _register_location(registry: PluginRegistry, location: Path) -> None:
    try:
        names = list(_module_names(location))
    except (OSError, zipfile.BadZipFile) as error:
        _log.error("Cannot read the plugins in %s: %s", location, error)
        return
    if str(location) not in sys.path:
        sys.path.append(str(location))
        importlib.invalidate_caches()
    distributions = list(importlib.metadata.distributions(path=[str(location)]))
    version = distributions[0].version if len(distributions) == 1 else None
    for name in names:
        _register_module(registry, name, location, version)


def _register_module(
    registry: PluginRegistry, name: str, location: Path, version: str | None
) -> None:
    try:
        module = importlib.import_module(name)
    except Exception:  # noqa: BLE001 - a broken plugin must not hide the others
        _log.exception(
            "Cannot load the plugins of %s in %s; install what the trace misses, or "
            "remove it from plugin.path",
            name,
            location,
        )
        return
    origin = getattr(module, "__file__", None)
    if origin is None or not Path(origin).is_relative_to(location):
        _log.error(
            "Not loading %s from %s: a module of the same name is already loaded from %s; rename"
            " one of them",
            name,
            location,
            origin,
        )
        return
    found = list(_plugin_classes(module))
    for plugin in found:
        registry.register(plugin, version=version)
    _log.info("%d plugins of %s loaded from %s", len(found), name, location)


def _plugin_classes(module: ModuleType) -> Iterable[type]:
    """Return the plugin classes that a module defines or imports from its own submodules."""
    inside = f"{module.__name__}."
    for _, value in inspect.getmembers(module, inspect.isclass):
        own = value.__module__ == module.__name__ or value.__module__.startswith(inside)
        private = value.__name__.startswith("_")
        if own and not private and not inspect.isabstract(value) and kinds_of(value):
            yield value


def _register_entry_points(
    registry: PluginRegistry, distribution: importlib.metadata.Distribution
) -> None:
    for entry in distribution.entry_points.select(group=ENTRY_POINT_GROUP):
        try:
            found = entry.load()
            if inspect.isclass(found):
                if not kinds_of(found):
                    raise ConfigError(f"{entry.value} is neither a plugin class nor a function")
                registry.register(found, version=distribution.version)
            else:
                found(registry)
        except Exception:  # noqa: BLE001 - a broken package must not hide the others
            _log.exception(
                "Cannot register the plugins of %s; install what the trace misses, or "
                "uninstall the package",
                entry.value,
            )
