"""REST endpoints of connectors: list, create, configure, pause, resume, stop, restart, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from api.rest.bodies import create_request, required_string_map
from api.rest.dependencies import (
    FAILURES,
    STRING_MAP,
    ConnectorName,
    HerderDep,
    JavaBoolean,
    RawBody,
    body_of,
    empty,
    json_answer,
)
from api.rest.errors import RestError
from api.rest.forwarding import Forwarded, Hop, path_segment
from api.rest.json_text import parse_initial_state
from api.rest.models import (
    ConnectorStateInfo,
    CreateConnectorRequest,
    ExpandedConnector,
    json_bytes,
)
from api.rest.shown_configs import Shown, ShownConfigs
from connect.clients.rest_client import RestAnswer
from connect.runtime.errors import BadRequest, NotFound
from connect.runtime.herder import Herder
from connect.runtime.rest_entities import ConnectorInfo

__all__ = ["router"]

router = APIRouter(prefix="/connectors", responses=FAILURES, tags=["connectors"])

Config = dict[str, str | None]


@router.get("", response_model=list[str] | dict[str, ExpandedConnector])
def list_connectors(
    herder: HerderDep, shown: ShownConfigs, expand: Annotated[list[str] | None, Query()] = None
) -> Response:
    """List the names of all connectors. With `expand=status` or `expand=info` (or both), return an
    object with the details of each connector."""
    names = herder.connectors()
    if expand is None:
        return json_answer(names)
    found = {name: _expanded(herder, shown, name, expand) for name in names}
    return json_answer({name: each for name, each in found.items() if each is not None})


def _expanded(
    herder: Herder, shown: Shown, name: str, expand: Sequence[str]
) -> ExpandedConnector | None:
    """Return the details of one connector; None if it was deleted meanwhile, or has no status
    yet."""
    try:
        status = herder.connector_state(name) if "status" in expand else None
        info = _info(herder, shown, name) if "info" in expand else None
    except NotFound:
        return None
    return ExpandedConnector(
        status=None if status is None else ConnectorStateInfo.of(status),
        info=info,
    )


@router.post(
    "",
    status_code=201,
    response_model=ConnectorInfo,
    openapi_extra=body_of(CreateConnectorRequest),
)
def create_connector(
    request: Request, herder: HerderDep, body: RawBody, forwarding: Forwarded
) -> Response:
    """Create a connector. Returns 409 if one with this name exists."""
    asked = create_request(body)
    name = (asked.name or "").strip()
    given = asked.initial_state
    state = None if given is None else parse_initial_state(given)
    if asked.config is None:
        raise RestError(500, 'The request body has no "config"')
    config = _named(name, asked.config)
    sent = CreateConnectorRequest(
        name=name,
        config=config,
        initial_state=None if given is None else given.upper(),
    )
    return forwarding.complete_with(
        Hop("POST", "/connectors", json_bytes(sent)),
        lambda: herder.put_connector_config(name, config, allow_replace=False, initial_state=state),
        _put_answer(request, name),
        _put_relay(request, name),
    )


@router.get("/{connector}", response_model=ConnectorInfo)
def connector_info(connector: ConnectorName, herder: HerderDep, shown: ShownConfigs) -> Response:
    """Return the config and tasks of a connector."""
    return json_answer(_info(herder, shown, connector))


def _info(herder: Herder, shown: Shown, name: str) -> ConnectorInfo:
    found = herder.connector_info(name)
    return replace(found, config=shown.config(found.config))


@router.delete("/{connector}", status_code=204)
def delete_connector(
    connector: ConnectorName, herder: HerderDep, forwarding: Forwarded
) -> Response:
    """Delete a connector. Its stored offsets are kept."""
    return forwarding.complete(
        Hop("DELETE", _path(connector)),
        lambda: herder.delete_connector(connector),
        lambda _: empty(204),
    )


@router.get("/{connector}/config", response_model=dict[str, str | None])
def connector_config(connector: ConnectorName, herder: HerderDep, shown: ShownConfigs) -> Response:
    """Return a connector's config as it was submitted, to users who may not change it without the
    secrets in it."""
    return json_answer(shown.config(herder.connector_config(connector)))


@router.put("/{connector}/config", response_model=ConnectorInfo, openapi_extra=body_of(STRING_MAP))
def put_connector_config(
    request: Request,
    connector: ConnectorName,
    herder: HerderDep,
    body: RawBody,
    forwarding: Forwarded,
) -> Response:
    """Create a connector (201), or replace the config of an existing one (200)."""
    config = _named(connector, required_string_map(body))
    return forwarding.complete_with(
        Hop("PUT", _path(connector, "config"), json_bytes(config)),
        lambda: herder.put_connector_config(connector, config, allow_replace=True),
        _put_answer(request, connector),
        _put_relay(request, connector),
    )


@router.patch(
    "/{connector}/config", response_model=ConnectorInfo, openapi_extra=body_of(STRING_MAP)
)
def patch_connector_config(
    connector: ConnectorName, herder: HerderDep, body: RawBody, forwarding: Forwarded
) -> Response:
    """Change some keys of a connector's config (KIP-477). A null value removes the key."""
    patch = required_string_map(body)
    return forwarding.complete(
        Hop("PATCH", _path(connector, "config"), json_bytes(patch)),
        lambda: herder.patch_connector_config(connector, patch),
        json_answer,
    )


@router.get("/{connector}/status", response_model=ConnectorStateInfo)
def connector_status(connector: ConnectorName, herder: HerderDep) -> Response:
    """Return the states of a connector and its tasks."""
    return json_answer(ConnectorStateInfo.of(herder.connector_state(connector)))


@router.put("/{connector}/pause", status_code=202)
def pause_connector(connector: ConnectorName, herder: HerderDep) -> Response:
    """Pause a connector and its tasks. They keep their resources."""
    herder.pause_connector(connector)
    return empty(202)


@router.put("/{connector}/resume", status_code=202)
def resume_connector(connector: ConnectorName, herder: HerderDep) -> Response:
    """Resume a connector that was paused or stopped."""
    herder.resume_connector(connector)
    return empty(202)


@router.put("/{connector}/stop", status_code=204)
def stop_connector(connector: ConnectorName, herder: HerderDep, forwarding: Forwarded) -> Response:
    """Stop a connector and remove its tasks. Its config is kept (KIP-875)."""
    return forwarding.complete(
        Hop("PUT", _path(connector, "stop")),
        lambda: herder.stop_connector(connector),
        lambda _: empty(204),
    )


@router.post(
    "/{connector}/restart",
    status_code=204,
    responses={202: {"model": ConnectorStateInfo, "description": "Restart accepted"}},
)
def restart_connector(
    connector: ConnectorName,
    herder: HerderDep,
    forwarding: Forwarded,
    includeTasks: JavaBoolean = False,
    onlyFailed: JavaBoolean = False,
) -> Response:
    """Restart a connector (KIP-745): with `includeTasks`, its tasks too; with `onlyFailed`, only
    failed instances."""
    if not includeTasks and not onlyFailed:
        return forwarding.complete(
            Hop("POST", _path(connector, "restart")),
            lambda: herder.restart_connector(connector),
            lambda _: empty(204),
        )
    query = {"includeTasks": _java(includeTasks), "onlyFailed": _java(onlyFailed)}
    return forwarding.complete(
        Hop("POST", _path(connector, "restart"), query=query),
        lambda: herder.restart_connector_and_tasks(
            connector, only_failed=onlyFailed, include_tasks=includeTasks
        ),
        lambda plan: json_answer(ConnectorStateInfo.of(plan), 202),
    )


def _java(value: bool) -> str:
    return "true" if value else "false"


def _path(connector: str, *more: str) -> str:
    return "/".join(("/connectors", path_segment(connector), *more))


def _named(name: str, config: Mapping[str, str | None]) -> Config:
    """Add the connector's name to the config."""
    given = config.get("name")
    if given is None:
        return {**config, "name": name}
    if given != name:
        raise BadRequest(
            f"Connector name configuration ({given}) doesn't match connector name in the URL"
            f" ({name})"
        )
    return dict(config)


def _location(request: Request, name: str) -> dict[str, str]:
    """Return the URL of the new connector, as the client sees it."""
    path = quote(name, safe="/!$&'()*+,;=:@~")
    return {"Location": f"{str(request.base_url).rstrip('/')}/connectors/{path}"}


def _put_answer(request: Request, name: str) -> Callable[[tuple[bool, ConnectorInfo]], Response]:
    def answer(result: tuple[bool, ConnectorInfo]) -> Response:
        created, info = result
        return json_answer(info, 201, _location(request, name)) if created else json_answer(info)

    return answer


def _put_relay(request: Request, name: str) -> Callable[[RestAnswer], Response]:
    """Return the other worker's response, with this worker's URL of the new connector."""

    def relay(answer: RestAnswer) -> Response:
        headers = _location(request, name) if answer.status == 201 else None
        return Response(answer.body, answer.status, headers, "application/json")

    return relay
