"""The plugins available in every worker program."""

from __future__ import annotations

from collections.abc import Mapping

from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror import plugins as mirror_plugins

__all__ = ["plugin_registry"]


def plugin_registry(props: Mapping[str, str]) -> PluginRegistry:
    """Return all plugins of a worker: built-in ones, and those from `plugin.path` and installed
    packages."""
    path = [text.strip() for text in props.get("plugin.path", "").split(",") if text.strip()]
    plugins = PluginRegistry(plugin_path=path)
    mirror_plugins.register(plugins)
    if path:
        plugins.discover()  # Policies, filters and admin classes in it are found by importing them.
    return plugins
