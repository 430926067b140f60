"""The mirror's connectors under the names that configs give them."""

from __future__ import annotations

from connect.runtime.plugins import PluginRegistry
from connectors.mirror.config_base import JAVA_PACKAGE
from connectors.mirror.heartbeat import MirrorHeartbeatConnector
from connectors.mirror.source_connector import MirrorSourceConnector

__all__ = ["register"]


def register(registry: PluginRegistry) -> None:
    """Make the mirror's connectors known by their Java names and ours."""
    for connector in (MirrorSourceConnector, MirrorHeartbeatConnector):
        registry.register(connector, f"{JAVA_PACKAGE}{connector.__name__}")
