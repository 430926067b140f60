"""The file connectors under the names that configs give them."""

from __future__ import annotations

from connect.runtime.plugins import PluginRegistry
from connectors.files.sink import FileStreamSinkConnector
from connectors.files.source import FileStreamSourceConnector

__all__ = ["register"]


def register(registry: PluginRegistry) -> None:
    """Make the file connectors known by their Java names and ours."""
    for connector in (FileStreamSourceConnector, FileStreamSinkConnector):
        registry.register(connector, f"org.apache.kafka.connect.file.{connector.__name__}")
