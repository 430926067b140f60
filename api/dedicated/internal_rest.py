"""The internal REST server of dedicated mode, through which the workers of a flow reach its leader.

Listeners, advertised address, CORS, headers and TLS are those of a Connect worker, set at the top
level of mm2.properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from api.rest.server import RestServer
from connect.metrics.registry import MetricRegistry
from connectors.mirrormaker.mirror_maker import InternalRest

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from api.rest.routers.mirror_internal import HerderOfFlow

__all__ = ["MirrorRestServer"]

# Connect's REST API has these endpoints, which dedicated mode does not serve.
_OTHERS = ("admin.listeners", "rest.extension.classes")


class MirrorRestServer(RestServer):
    """Like `RestServer`. Until `serve` is called, clients are told to retry."""

    def __init__(self, props: Mapping[str, str]) -> None:
        """`props`: an mm2.properties file with config providers resolved. Raises ConfigError."""
        own = {key: value for key, value in props.items() if not key.startswith(_OTHERS)}
        super().__init__(own, MetricRegistry(), {})
        self._herder_of_flow: HerderOfFlow = lambda source, target: None

    @property
    def reach(self) -> InternalRest:
        """Return how other processes reach this one. Call after `bind`."""
        return InternalRest(self.advertised_url, self.worker_id, self.client)

    def serve(self, herder_of_flow: HerderOfFlow) -> None:
        """Begin to serve requests for these flows."""
        self._herder_of_flow = herder_of_flow

    def _main_app(self) -> ASGIApp:
        from api.rest.app import create_mirror_app

        return create_mirror_app(
            lambda source, target: self._herder_of_flow(source, target), self.config
        )
