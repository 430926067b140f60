"""Plugin information for REST: the list of plugins, and the config keys of one."""

from __future__ import annotations

from connect.config.connector import SINK_CONNECTOR_KEYS, SOURCE_CONNECTOR_KEYS
from connect.config.definition import ConfigDef, ConfigValue
from connect.data.converters.base import Converter
from connect.data.transforms.base import Predicate, Transformation
from connect.plugin import Connector
from connect.runtime.errors import BadRequest, NotFound
from connect.runtime.plugins.kinds import PluginKind
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.plugins.versions import VersionRange
from connect.runtime.rest_entities import ConfigInfo, PluginInfo

__all__ = ["plugin_config", "plugin_infos"]

_CONNECTORS = (PluginKind.SINK, PluginKind.SOURCE)
_OTHERS = (
    PluginKind.TRANSFORMATION,
    PluginKind.PREDICATE,
    PluginKind.CONVERTER,
    PluginKind.HEADER_CONVERTER,
)


def plugin_infos(registry: PluginRegistry, *, connectors_only: bool) -> list[PluginInfo]:
    """Return all plugins that connector configs may use, sorted by kind and name."""
    kinds = _CONNECTORS if connectors_only else _CONNECTORS + _OTHERS
    return [
        PluginInfo(entry.name, kind.value, entry.version)
        for kind in kinds
        for entry in registry.all(kind)
    ]


def plugin_config(
    registry: PluginRegistry, name: str, version: str | None = None
) -> list[ConfigInfo]:
    """Return a plugin's config keys; for a connector its own first, then those of all connectors.

    Raises `NotFound`, and `BadRequest` if that version does not exist.
    """
    found = registry.lookup(name)
    if len(found) != 1:
        raise NotFound(f"Unknown plugin {name}.")
    plugin = found[0]
    wanted = VersionRange.parse(version)
    available = registry.version_of(plugin)
    if available not in wanted:
        raise BadRequest(
            f"Plugin {registry.name_of(plugin)} not found that matches the version range {wanted},"
            f" available versions: [{available}]"
        )
    if not issubclass(plugin, Connector | Converter | Transformation | Predicate):
        raise BadRequest(
            f"Invalid plugin class {name}. Valid types are sink, source, converter,"
            " header_converter, transformation, predicate."
        )
    keys = dict(plugin.config_def().keys)
    if issubclass(plugin, Connector):
        source = plugin.connector_type() == "source"
        for key in ConfigDef(SOURCE_CONNECTOR_KEYS if source else SINK_CONNECTOR_KEYS):
            keys.setdefault(key.name, key)
    return [
        ConfigInfo(key, ConfigValue(key.name, None), key.group, key.order) for key in keys.values()
    ]
