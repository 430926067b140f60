"""Loads the classes that properties name: replication policies and filters, built-in or custom."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from connect.config.types import invalid_value
from connect.errors import ConfigError
from connectors.mirror.config.base import JAVA_PACKAGE

__all__ = ["JAVA_PACKAGE", "load_class", "load_configured"]

Extension = TypeVar("Extension")

# Module names of earlier releases, which stored configs may contain.
_FORMER_MODULES = {"connectors.mirror.policy": "connectors.mirror.replication_policy"}


def load_class(
    key: str,
    name: str,
    built_in: Mapping[str, type[Extension]],
    base: type[Extension],
    group: str | None = None,
) -> type[Extension]:
    """Load the class that property `key` names.

    `built_in` maps Java class names to Python classes. Any other name is an entry point of `group`,
    or the path (`package.module.Class` or `package.module:Class`) of a Python subclass of `base`.
    Raises `ConfigError` with key and value.
    """
    known = built_in.get(name.strip())
    if known is not None:
        return known
    module_name, _, class_name = name.strip().replace(":", ".", 1).rpartition(".")
    module_name = _FORMER_MODULES.get(module_name, module_name)
    try:
        found = _entry_point(group, name.strip())
        if found is None:
            found = getattr(importlib.import_module(module_name), class_name, None)
    except (ImportError, ValueError, AttributeError) as error:
        raise _unknown(key, name, built_in, str(error)) from error
    if found is None:
        raise _unknown(key, name, built_in, f"module {module_name} has no class {class_name}")
    if not (isinstance(found, type) and issubclass(found, base)):
        raise _unknown(key, name, built_in, f"it is not a subclass of {base.__qualname__}")
    return found


def _entry_point(group: str | None, name: str) -> object:
    """Load the entry point of this name; None if there is none."""
    if group is None or not name:
        return None
    loaded: list[object] = [entry.load() for entry in entry_points(group=group, name=name)]
    return loaded[0] if loaded else None


def load_configured(
    key: str, props: Mapping[str, str], default: type[Extension], base: type[Extension]
) -> Extension:
    """Make an object of the class that property `key` names, with `props`; by default, and under
    the Java name of the same class, `default`. Raises `ConfigError`."""
    java_name = JAVA_PACKAGE + default.__name__
    loaded: Callable[[Mapping[str, str]], Extension] = load_class(
        key, props.get(key, java_name), {java_name: default}, base
    )
    return loaded(props)


def _unknown(key: str, name: str, built_in: Mapping[str, object], reason: str) -> ConfigError:
    return invalid_value(
        key,
        name,
        f"{reason}. Use {', '.join(sorted(built_in))}, or the path of a Python class, "
        "module:Class.",
    )
