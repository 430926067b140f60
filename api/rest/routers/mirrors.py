"""The flows of the mirror: how far each partition is behind, whichever worker copies it.

Served by Connect workers, and by `connect-mirror-maker` among its status pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response

from api.rest.dependencies import FAILURES, json_answer
from api.rest.errors import RestError
from api.rest.models import FlowLag
from api.rest.worker_handle import STARTING, WorkerHandle
from connect.runtime.connector_status import ConnectorStatus
from connect.runtime.errors import NotFound
from connect.runtime.herder import Herder
from connectors.mirror.plugins import source_flow

__all__ = ["FlowStatuses", "router", "worker_flows"]

FlowStatuses = Mapping[str, Sequence[Callable[[], ConnectorStatus]]]
"""From each flow (`a->b`) to what asks all workers for the status of its source connectors. The
application has a function that returns it, in `state.flows`."""

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
