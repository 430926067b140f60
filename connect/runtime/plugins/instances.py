"""Makes objects of plugin classes, with errors that name the config key and the class."""

from __future__ import annotations

import inspect
from typing import TypeVar

from connect.config.types import invalid_value

__all__ = ["make_plugin"]

T = TypeVar("T")


def make_plugin(plugin: type[T], key: str, name: str) -> T:
    """Make an object of a class, without arguments. `key`: of the config, which names the class
    `name`. Raises `ConfigError` with Java's words."""
    if inspect.isabstract(plugin):
        missing = ", ".join(sorted(getattr(plugin, "__abstractmethods__", ())))
        reason = f"This class is abstract and cannot be created. It does not define {missing}."
        raise invalid_value(key, name, reason)
    try:
        return plugin()
    except Exception as error:
        told = str(error).strip() or type(error).__name__
        raise invalid_value(key, name, f"Could not instantiate class: {told}") from error
