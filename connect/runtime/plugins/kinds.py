"""The kinds of plugins."""

from __future__ import annotations

import enum

from connect.config.providers import ConfigProvider
from connect.data.converters.base import Converter, HeaderConverter
from connect.data.transforms.base import Predicate, Transformation
from connect.plugin import Connector
from connect.plugin.rest_extension import ConnectRestExtension
from connect.runtime.plugins.override_policy import ConnectorClientConfigOverridePolicy

__all__ = ["PLUGIN_BASES", "PluginKind", "kinds_of"]


class PluginKind(enum.Enum):
    """A kind of plugin. The values are Kafka Connect's names."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    CONFIG_PROVIDER = "config_provider"
    OVERRIDE_POLICY = "connector_client_config_override_policy"
    REST_EXTENSION = "rest_extension"


PLUGIN_BASES: tuple[type, ...] = (
    Connector,
    HeaderConverter,
    Converter,
    Transformation,
    Predicate,
    ConfigProvider,
    ConnectorClientConfigOverridePolicy,
    ConnectRestExtension,
)
"""The base classes of plugins. A plugin's short name omits their names."""

_SIMPLE_KINDS: tuple[tuple[type, PluginKind], ...] = (
    (Transformation, PluginKind.TRANSFORMATION),
    (Predicate, PluginKind.PREDICATE),
    (ConfigProvider, PluginKind.CONFIG_PROVIDER),
    (ConnectorClientConfigOverridePolicy, PluginKind.OVERRIDE_POLICY),
    (ConnectRestExtension, PluginKind.REST_EXTENSION),
)


def kinds_of(plugin: type) -> frozenset[PluginKind]:
    """Return the kinds of this class; empty if it is not a plugin."""
    kinds = {kind for base, kind in _SIMPLE_KINDS if issubclass(plugin, base)}
    if issubclass(plugin, Connector):
        kinds.add(PluginKind(plugin.connector_type()))
    if issubclass(plugin, Converter):
        kinds.add(PluginKind.HEADER_CONVERTER)
        if not issubclass(plugin, HeaderConverter):
            kinds.add(PluginKind.CONVERTER)
    return frozenset(kinds)
