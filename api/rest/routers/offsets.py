"""REST endpoints of connector offsets (KIP-875): list, alter, reset."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from api.rest.bodies import offset_entries
from api.rest.dependencies import FAILURES, ConnectorName, HerderDep, RawBody, body_of, json_answer
from api.rest.forwarding import Forwarded, Hop, path_segment
from api.rest.models import ConnectorOffsets, Message

__all__ = ["router"]

router = APIRouter(prefix="/connectors/{connector}/offsets", responses=FAILURES, tags=["offsets"])


@router.get("", response_model=ConnectorOffsets)
def connector_offsets(connector: ConnectorName, herder: HerderDep) -> Response:
    """Return the stored offsets of a connector."""
    return json_answer(ConnectorOffsets.of(herder.connector_offsets(connector)))


@router.patch("", response_model=Message, openapi_extra=body_of(ConnectorOffsets))
def alter_offsets(
    connector: ConnectorName, herder: HerderDep, body: RawBody, forwarding: Forwarded
) -> Response:
    """Alter offsets of a stopped connector. A null offset deletes the partition's stored offset."""
    entries = offset_entries(body)
    return forwarding.complete(
        Hop("PATCH", _path(connector), body),
        lambda: herder.alter_offsets(connector, entries),
        lambda message: json_answer(Message(message=message)),
    )


@router.delete("", response_model=Message)
def reset_offsets(connector: ConnectorName, herder: HerderDep, forwarding: Forwarded) -> Response:
    """Delete all offsets of a stopped connector."""
    return forwarding.complete(
        Hop("DELETE", _path(connector)),
        lambda: herder.reset_offsets(connector),
        lambda message: json_answer(Message(message=message)),
    )


def _path(connector: str) -> str:
    return f"/connectors/{path_segment(connector)}/offsets"
