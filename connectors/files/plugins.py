"""Registers the file connectors under the class names that configs use."""

from __future__ import annotations

from connect.runtime.plugins.registry import PluginRegistry
from connectors.files.sink import FileStreamSinkConnector, FileStreamSinkTask
from connectors.files.source import FileStreamSourceConnector, FileStreamSourceTask

__all__ = ["register"]

_JAVA_PACKAGE = "org.apache.kafka.connect.file."


def register(registry: PluginRegistry) -> None:
    """Register the file connectors under their Java names and ours."""
    for connector in (FileStreamSourceConnector, FileStreamSinkConnector):
        registry.register(connector, f"{_JAVA_PACKAGE}{connector.__name__}")
    for task in (FileStreamSourceTask, FileStreamSinkTask):
        registry.name_task(
            f"{task.__module__}.{task.__qualname__}", f"{_JAVA_PACKAGE}{task.__name__}"
        )
