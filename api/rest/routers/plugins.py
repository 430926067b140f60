"""REST endpoints of plugins: list them, show their config keys, validate connector configs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from api.rest.bodies import required_string_map
from api.rest.dependencies import (
    FAILURES,
    STRING_MAP,
    HerderDep,
    JavaBoolean,
    RawBody,
    body_of,
    json_answer,
)
from api.rest.errors import RestError
from api.rest.models import ConfigInfos, ConfigKeyInfo, PluginInfo
from connect.errors import ConfigError
from connect.runtime.errors import BadRequest

__all__ = ["router"]

router = APIRouter(prefix="/connector-plugins", responses=FAILURES, tags=["plugins"])

_JAVA_BAD_REQUEST = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"
_KIND = "Connector"


@router.get("", response_model=list[PluginInfo])
def list_plugins(herder: HerderDep, connectorsOnly: JavaBoolean = True) -> Response:
    """List connectors; with `connectorsOnly=false`, also transformations, predicates and
    converters."""
    plugins = herder.plugins(connectors_only=connectorsOnly)
    return json_answer([PluginInfo.of(plugin) for plugin in plugins])


@router.get("/{plugin}/config", response_model=list[ConfigKeyInfo])
def plugin_config(
    plugin: str, herder: HerderDep, version: Annotated[str | None, Query()] = None
) -> Response:
    """Return the config keys of a plugin."""
    found = herder.plugin_config(plugin, version)
    return json_answer([ConfigKeyInfo.of(info) for info in found])


@router.put(
    "/{plugin}/config/validate", response_model=ConfigInfos, openapi_extra=body_of(STRING_MAP)
)
def validate(plugin: str, herder: HerderDep, body: RawBody) -> Response:
    """Validate a connector's config. The status is 200 even if there are errors."""
    config = required_string_map(body)
    given = config.get("connector.class")
    if given is not None and not _same_class(given, plugin):
        raise BadRequest(f"Included connector type {given} does not match request type {plugin}")
    try:
        infos = herder.validate(config)
    except (BadRequest, ConfigError) as error:
        # Java validates on another thread and wraps its errors: status 500 with this prefix.
        raise RestError(500, f"{_JAVA_BAD_REQUEST}: {error}") from error
    return json_answer(ConfigInfos.of(infos))


def _same_class(given: str, asked: str) -> bool:
    """Whether the class in the config ends like the one in the path, both without `Connector`."""
    return _normal(given).endswith(_normal(asked))


def _normal(name: str) -> str:
    return name.removesuffix(_KIND) or name
