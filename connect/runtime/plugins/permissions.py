"""Settings of connectors that choose files, hosts or code of the worker, and who may set them.

Any client that reaches the REST API may create connectors. The operator permits such settings in
the worker's properties; in dedicated mode the connectors' configs are the operator's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from connect.clients.security.jaas import JAAS_KEY, parse_jaas
from connect.config.definition import ConfigDef, ConfigProblem
from connect.config.java_options import system_property
from connect.config.types import invalid_value
from connect.config.worker_keys import (
    ALLOWED_AWS_IDENTITIES,
    ALLOWED_FILES,
    ALLOWED_SERVERS,
    ALLOWED_STORES,
    ALLOWED_URLS,
    WORKER_CONFIG_DEF,
)
from connect.errors import ConfigError
from connect.plugin import Connector

__all__ = ["EVERYTHING", "OperatorPermissions", "Permissions"]

_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_TOKEN_FILES = tuple(
    f"sasl.oauthbearer.assertion.{name}file" for name in ("", "private.key.", "template.")
)

_SERVERS = "bootstrap.servers"
_LOGIN_FILE_OPTIONS = ("keyTab", "ticketCache")
_AWS_OPTIONS = ("awsProfileName", "awsRoleArn")
_STORES = ("ssl.keystore.location", "ssl.truststore.location")


class Permissions(Protocol):
    """Decides what the configs of a worker's connectors may contain. Thread-safe."""

    def problems(
        self, connector: type[Connector], config: Mapping[str, str]
    ) -> list[ConfigProblem]:
        """Return the settings of a resolved config that are not permitted."""

    def check(self, connector: type[Connector], config: Mapping[str, str]) -> None:
        """Raise `ConfigError` for the first setting that is not permitted."""


class _Everything:
    """For connectors whose configs are the operator's own."""

    def problems(
        self, connector: type[Connector], config: Mapping[str, str]
    ) -> list[ConfigProblem]:
        return []

    def check(self, connector: type[Connector], config: Mapping[str, str]) -> None:
        """Permit everything."""


EVERYTHING: Permissions = _Everything()


class OperatorPermissions:
    """For connectors of REST users: what the worker's properties and KAFKA_OPTS permit.

    As in Kafka 4, a token endpoint or file needs an entry in Kafka's lists; so does a keytab or a
    ticket cache, and an AWS identity in a list of its own. Key and trust stores must lie below
    directories that are listed. The stores of the worker's own properties need no such directory,
    because its operator wrote them.
    """

    def __init__(
        self, worker: Mapping[str, str], environment: Mapping[str, str] = os.environ
    ) -> None:
        """`worker`: the worker's properties, resolved. Raises `ConfigError`."""
        self._worker = worker
        self._allowed = {
            key: frozenset([*_allowed(key, worker, environment), *_own(worker, names)])
            for key, names in ((ALLOWED_URLS, (_TOKEN_URL,)), (ALLOWED_FILES, _TOKEN_FILES))
        }
        self._servers = frozenset(map(str.lower, _listed(ALLOWED_SERVERS, worker)))
        own = (path for _, path in _login_options(worker, _LOGIN_FILE_OPTIONS))
        self._login_files = self._allowed[ALLOWED_FILES].union(own)
        own = (name for _, name in _login_options(worker, _AWS_OPTIONS))
        self._aws = frozenset([*_listed(ALLOWED_AWS_IDENTITIES, worker), *own])
        self._stores = frozenset(_own(worker, _STORES))
        self._store_roots = [Path(each) for each in _listed(ALLOWED_STORES, worker)]

    def problems(
        self, connector: type[Connector], config: Mapping[str, str]
    ) -> list[ConfigProblem]:
        own = connector.not_permitted(config, self._worker)
        return [
            *self._token_problems(config),
            *self._login_problems(config),
            *self._aws_problems(config),
            *self._store_problems(config),
            *self._server_problems(config),
            *own,
        ]

    def check(self, connector: type[Connector], config: Mapping[str, str]) -> None:
        for problem in self.problems(connector, config):
            raise ConfigError(problem.message, key=problem.key)

    def _token_problems(self, config: Mapping[str, str]) -> Iterator[ConfigProblem]:
        for list_key, names in ((ALLOWED_URLS, (_TOKEN_URL,)), (ALLOWED_FILES, _TOKEN_FILES)):
            for key, value in config.items():
                if _is_one_of(key, names) and value.strip() not in {"", *self._allowed[list_key]}:
                    reason = (
                        "connectors of this worker may not use it; its operator can add it to"
                        f" {list_key} in the worker's properties, or as -D{list_key}=... in"
                        " KAFKA_OPTS"
                    )
                    yield ConfigProblem(key, str(invalid_value(key, value, reason)))

    def _login_problems(self, config: Mapping[str, str]) -> Iterator[ConfigProblem]:
        """Find keytabs and ticket caches: a connector that chooses one acts as its principal."""
        for key, path in _login_options(config, _LOGIN_FILE_OPTIONS):
            if path not in self._login_files:
                yield ConfigProblem(
                    key,
                    f"Invalid value [hidden] for configuration {key}: connectors of this worker "
                    f"may not use the file {path}; its operator can add it to {ALLOWED_FILES} in "
                    f"the worker's properties, or as -D{ALLOWED_FILES}=... in KAFKA_OPTS",
                )

    def _aws_problems(self, config: Mapping[str, str]) -> Iterator[ConfigProblem]:
        """Find AWS profiles and roles, which are identities of the worker's machine."""
        for key, name in _login_options(config, _AWS_OPTIONS):
            if name not in self._aws:
                yield ConfigProblem(
                    key,
                    f"Invalid value [hidden] for configuration {key}: connectors of this worker "
                    f"may not use the AWS identity {name}; its operator can add it to "
                    f"{ALLOWED_AWS_IDENTITIES} in the worker's properties",
                )

    def _store_problems(self, config: Mapping[str, str]) -> Iterator[ConfigProblem]:
        """Find key and trust stores, which the worker reads with its own rights."""
        for key, value in config.items():
            path = value.strip()
            if not _is_one_of(key, _STORES) or path in {"", *self._stores}:
                continue
            if not self._in_store_roots(path):
                reason = (
                    "connectors of this worker may not use this file; its operator can add its"
                    f" directory to {ALLOWED_STORES} in the worker's properties"
                )
                yield ConfigProblem(key, str(invalid_value(key, value, reason)))

    def _in_store_roots(self, path: str) -> bool:
        try:
            file = Path(path).resolve()
            return any(file.is_relative_to(root.resolve()) for root in self._store_roots)
        except (OSError, ValueError, RuntimeError):  # A NUL, or links in a circle.
            return False

    def _server_problems(self, config: Mapping[str, str]) -> Iterator[ConfigProblem]:
        """Find bootstrap servers: the login of a JAAS file, or the connector's own, is sent to
        them."""
        if not self._servers:
            return
        for key, value in config.items():
            if not _is_one_of(key, (_SERVERS,)):
                continue
            for server in filter(None, map(str.strip, value.split(","))):
                host, _, _ = server.rpartition(":")
                if not self._servers & {server.lower(), host.lower()}:
                    reason = (
                        f"connectors of this worker may not use {server}; its operator can add it"
                        f" to {ALLOWED_SERVERS} in the worker's properties"
                    )
                    yield ConfigProblem(key, str(invalid_value(key, value, reason)))


def _login_options(props: Mapping[str, str], options: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Return these options of login modules, as (key, value)."""
    for key, value in props.items():
        if not _is_one_of(key, (JAAS_KEY,)):
            continue
        try:
            module = parse_jaas(value)
        except ConfigError:
            # The validation of the connector's clients says what is wrong with it.
            continue
        for option, text in module.options.items():
            if option in options and text.strip():
                yield key, text.strip()


def _allowed(
    list_key: str, worker: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[str]:
    yield from _listed(list_key, worker)
    text = system_property(list_key, environment) or ""
    yield from (part.strip() for part in text.split(",") if part.strip())


def _listed(list_key: str, worker: Mapping[str, str]) -> Iterable[str]:
    return ConfigDef([WORKER_CONFIG_DEF.keys[list_key]]).parse(worker).strings(list_key)


def _own(props: Mapping[str, str], names: tuple[str, ...]) -> Iterator[str]:
    return (value.strip() for key, value in props.items() if _is_one_of(key, names))


def _is_one_of(key: str, names: tuple[str, ...]) -> bool:
    return any(key == name or key.endswith(f".{name}") for name in names)
