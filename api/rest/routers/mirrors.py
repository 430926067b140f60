"""The flows of the mirror: how far each partition is behind, whichever worker copies it.

Served by Connect workers, and by `connect-mirror-maker` among its status pages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response

from api.dashboard.views import MirrorView
from api.rest.dependencies import FAILURES, json_answer
from api.rest.errors import RestError
from api.rest.models import FlowLag
from api.rest.worker_handle import STARTING, WorkerHandle
from connect.config.providers import has_reference
from connect.errors import ConnectError
from connect.runtime.connector_status import ConnectorStatus
from connect.runtime.errors import NotFound
from connect.runtime.herder import Herder
from connectors.mirror.plugins import flow_aliases, source_flow

__all__ = ["FlowStatuses", "router", "worker_flows", "worker_views"]

log = logging.getLogger(__name__)

FlowStatuses = Mapping[str, Sequence[Callable[[], ConnectorStatus]]]
"""For each flow (`a->b`), functions that ask all workers for the status of its source connectors.
The application's `state.flows` is a function that returns this mapping."""

router = APIRouter(prefix="/mirrors", responses=FAILURES, tags=["mirrors"])


def worker_flows(site: WorkerHandle) -> FlowStatuses:
    """The flows of the connectors of a Connect worker's group."""
    herder = site.herder
    if herder is None:
        raise RestError(503, STARTING)
    flows: dict[str, list[Callable[[], ConnectorStatus]]] = {}
    for name in herder.connectors():
        flow = _flow_of(herder, name)
        if flow is not None:
            flows.setdefault(flow, []).append(lambda name=name: herder.group_status(name))  # type: ignore[misc]
    return flows


def _flow_of(herder: Herder, connector: str) -> str | None:
    try:
        return source_flow(herder.connector_config(connector))
    except NotFound:
        return None  # deleted meanwhile


def worker_views(site: WorkerHandle) -> dict[str, MirrorView]:
    """The flows of a Connect worker's group for the dashboard, with all their connectors."""
    herder = site.herder
    if herder is None:
        raise RestError(503, STARTING)
    connectors: dict[tuple[str, str], list[tuple[str, str]]] = {}
    properties: dict[tuple[str, str], tuple[Mapping[str, str], Mapping[str, str]]] = {}
    for name in herder.connectors():
        try:
            config = herder.connector_config(name)
            aliases = flow_aliases(config)
            if aliases is None:
                continue
            kind = config["connector.class"].strip().rpartition(".")[2]
            connectors.setdefault(aliases, []).append((kind, name))
            if source_flow(config) is not None:
                resolved = _resolved(herder, name)
                plain = {} if resolved else _plain(config)
                properties[aliases] = (resolved, plain)
        except NotFound:
            continue  # deleted meanwhile
    return {
        f"{source}->{target}": MirrorView(
            source,
            target,
            partial(_statuses, herder, connectors[source, target]),
            *properties[source, target],
        )
        for source, target in connectors
        if (source, target) in properties
    }


def _resolved(herder: Herder, name: str) -> Mapping[str, str]:
    try:
        return herder.resolved_config(name)
    except ConnectError as error:
        log.debug("The config of %s cannot be resolved: %s", name, error)
        return {}


def _plain(config: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in config.items() if not has_reference(text)}


def _statuses(
    herder: Herder, connectors: Sequence[tuple[str, str]]
) -> list[tuple[str, ConnectorStatus]]:
    found = []
    for kind, name in connectors:
        try:
            found.append((kind, herder.group_status(name)))
        except NotFound:
            continue  # deleted meanwhile
    return found


def _flows(request: Request) -> FlowStatuses:
    found: FlowStatuses = request.app.state.flows()
    return found


@router.get("/{flow}/lag", response_model=FlowLag)
def lag(flow: Annotated[str, Path()], flows: Annotated[FlowStatuses, Depends(_flows)]) -> Response:
    """How far each partition of a flow (`source->target`) is behind its source, whichever worker
    copies it. `incomplete` names the tasks whose partitions are not known, and why."""
    asks = flows.get(flow)
    if asks is None:
        known = ", ".join(sorted(flows)) or "none"
        raise RestError(404, f"There is no flow {flow}; flows: {known}")
    return json_answer(FlowLag.of(flow, [ask() for ask in asks]))
