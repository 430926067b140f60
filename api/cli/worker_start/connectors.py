"""The connectors of files, as a worker with these properties would see them. Runs none of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from api.cli.connector_files import read_connector_file
from connect.config.providers import ConfigProvider, ConfigProviders
from connect.config.worker import WorkerConfig
from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirrormaker.worker_permissions import WorkerConnector

__all__ = ["worker_connectors"]


def worker_connectors(
    config: WorkerConfig, locations: Sequence[str], plugins: PluginRegistry
) -> Iterator[WorkerConnector]:
    """Read the files. Raises `ConfigError`, also for a connector whose class nobody has."""
    providers = ConfigProviders.from_properties(
        config.originals, partial(plugins.find, ConfigProvider)
    )
    for location in locations:
        written = read_connector_file(location).config
        given = {key: value for key, value in written.items() if value is not None}
        yield WorkerConnector.from_config(providers.resolve(given), plugins)
