"""REST endpoints of the topics that connectors have used (KIP-558)."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from api.rest.dependencies import FAILURES, ConnectorName, HerderDep, empty, json_answer
from api.rest.models import ConnectorTopics

__all__ = ["router"]

router = APIRouter(prefix="/connectors/{connector}/topics", responses=FAILURES, tags=["topics"])


@router.get("", response_model=dict[str, ConnectorTopics])
def active_topics(connector: ConnectorName, herder: HerderDep) -> Response:
    """List the topics that a connector has used since it was created or the list was reset."""
    return json_answer({connector: ConnectorTopics(topics=herder.active_topics(connector))})


@router.put("/reset", status_code=202)
def reset_active_topics(connector: ConnectorName, herder: HerderDep) -> Response:
    """Reset the list of the connector's active topics."""
    herder.reset_active_topics(connector)
    return empty(202)
