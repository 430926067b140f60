"""The REST extensions of a worker: their creation, the state that they may read, and the parts that
they have added.

Java's BasicAuthSecurityRestExtension is not one of them here: `api.rest.security` does its work.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from api.rest.security import EXTENSIONS_KEY, is_basic_auth
from api.rest.worker_handle import STARTING, WorkerHandle
from connect.config.types import invalid_value
from connect.errors import ConfigError, ConnectError, RetriableError
from connect.plugin.rest_extension import (
    ConnectClusterDetails,
    ConnectorHealth,
    ConnectorState,
    ConnectRestExtension,
    TaskState,
)
from connect.runtime.plugins.registry import PluginRegistry

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.types import ASGIApp

    from connect.runtime.herder import Herder

__all__ = ["ClusterState", "RestExtensions"]

_LOG = logging.getLogger(__name__)


class ClusterState:
    """Implements `ConnectClusterState` for one worker."""

    def __init__(self, site: WorkerHandle) -> None:
        self._site = site

    def connectors(self) -> Sequence[str]:
        return self._herder().connectors()

    def connector_health(self, name: str) -> ConnectorHealth:
        found = self._herder().connector_state(name)
        tasks = (TaskState(each.id, each.state, each.worker_id, each.trace) for each in found.tasks)
        return ConnectorHealth(
            name,
            found.type,
            ConnectorState(found.state, found.worker_id, found.trace),
            {each.task_id: each for each in tasks},
        )

    def connector_config(self, name: str) -> Mapping[str, str]:
        return dict(self._herder().connector_config(name))

    def task_configs(self, name: str) -> Mapping[int, Mapping[str, str]]:
        return {each.id.task: dict(each.config) for each in self._herder().task_infos(name)}

    def cluster_details(self) -> ConnectClusterDetails:
        return ConnectClusterDetails(self._herder().kafka_cluster_id())

    def _herder(self) -> Herder:
        if self._site.herder is None:
            raise RetriableError(STARTING)
        return self._site.herder


class RestExtensions:
    """The extensions of one worker, and what they registered (`ConnectRestExtensionContext`).

    The owner calls `register` and `close` once each.
    """

    def __init__(
        self,
        names: Sequence[str],
        props: Mapping[str, str],
        plugins: PluginRegistry,
        site: WorkerHandle,
    ) -> None:
        """Create and configure the extensions. Raises `ConfigError`; then none is left open."""
        self.cluster_state = ClusterState(site)
        self.routers: list[APIRouter] = []
        self.middlewares: list[Callable[[ASGIApp], ASGIApp]] = []
        self._extensions: list[ConnectRestExtension] = []
        try:
            for name in names:
                if not is_basic_auth(name):
                    self._add(_class_of(name, plugins), name, props)
        except ConfigError:
            self.close()
            raise

    def add_router(self, router: APIRouter) -> None:
        self.routers.append(router)

    def add_middleware(self, make: Callable[[ASGIApp], ASGIApp]) -> None:
        self.middlewares.append(make)

    def register(self) -> None:
        """Let each extension register its parts. Raises `ConnectError`."""
        for extension in self._extensions:
            try:
                extension.register(self)
            except Exception as error:
                raise ConnectError(
                    f"REST extension {_name_of(extension)} cannot be registered: {error!r}"
                ) from error

    def close(self) -> None:
        """Close all extensions. Their errors are logged."""
        extensions, self._extensions = self._extensions, []
        for extension in extensions:
            try:
                extension.close()
            except Exception:  # noqa: BLE001 - plugin code; the others are closed all the same
                _LOG.exception(
                    "Closing REST extension %s failed; this is a defect of the extension: "
                    "report it to its author, with the trace",
                    _name_of(extension),
                )

    def _add(self, found: type[ConnectRestExtension], name: str, props: Mapping[str, str]) -> None:
        try:
            extension = found()
            self._extensions.append(extension)
            extension.configure(props)
        except Exception as error:
            reason = f"it cannot be configured: {error}"
            raise invalid_value(EXTENSIONS_KEY, name, reason) from error


def _class_of(name: str, plugins: PluginRegistry) -> type[ConnectRestExtension]:
    module, colon, member = name.partition(":")
    if not colon:
        return plugins.find(ConnectRestExtension, name, EXTENSIONS_KEY)
    plugins.discover()  # It puts plugin.path where modules are found.
    try:
        found = getattr(importlib.import_module(module), member, None)
    except ImportError as error:
        raise invalid_value(EXTENSIONS_KEY, name, str(error)) from error
    if not (isinstance(found, type) and issubclass(found, ConnectRestExtension)):
        reason = f"module {module} has no ConnectRestExtension {member}"
        raise invalid_value(EXTENSIONS_KEY, name, reason)
    return found


def _name_of(extension: ConnectRestExtension) -> str:
    return f"{type(extension).__module__}.{type(extension).__qualname__}"
