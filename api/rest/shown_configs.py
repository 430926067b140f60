"""Configs as they are shown to a user: with the secrets in them only to one who may change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Request

from api.rest.authentication import ROLE
from api.rest.dependencies import HerderDep
from api.rest.roles import Role
from connect.config.providers import is_reference
from connect.config.secrets import is_secret_name, without_secrets
from connect.config.types import HIDDEN, ConfigType
from connect.runtime.errors import BadRequest, NotFound
from connect.runtime.herder import Herder

__all__ = ["Shown", "ShownConfigs"]


class Shown:
    """Decides what the response to one request may contain. Without authentication everybody is an
    admin, as in Java."""

    def __init__(self, herder: Herder, role: Role) -> None:
        self._herder = herder
        self._everything = role >= Role.ADMIN

    def config(
        self, config: Mapping[str, str], connector: Mapping[str, str] | None = None
    ) -> Mapping[str, str]:
        """Return a connector's config, or that of a task of `connector`, as the user may see it.
        References to config providers stay."""
        if self._everything:
            return config
        passwords = self._passwords((connector or config).get("connector.class", ""))
        return {key: self._value(key, value, key in passwords) for key, value in config.items()}

    def _value(self, key: str, value: str, password: bool) -> str:
        if (password or is_secret_name(key)) and not is_reference(value):
            return HIDDEN
        return without_secrets(value)

    def _passwords(self, plugin: str) -> frozenset[str]:
        try:
            found = self._herder.plugin_config(plugin)
        except (BadRequest, NotFound):
            return frozenset()
        keys = (info.key for info in found)
        return frozenset(
            key.name for key in keys if key is not None and key.type is ConfigType.PASSWORD
        )


def _shown(request: Request, herder: HerderDep) -> Shown:
    return Shown(herder, request.scope.get(ROLE, Role.ADMIN))


ShownConfigs = Annotated[Shown, Depends(_shown)]
