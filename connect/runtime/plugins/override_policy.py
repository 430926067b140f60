"""Policies for client properties that connectors may override (`producer.override.` and so on)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from connect.config.types import ConfigType, parse_value

__all__ = [
    "AllConnectorClientConfigOverridePolicy",
    "AllowlistConnectorClientConfigOverridePolicy",
    "ClientKind",
    "ConnectorClientConfigOverridePolicy",
    "NoneConnectorClientConfigOverridePolicy",
    "OverrideRequest",
    "PrincipalConnectorClientConfigOverridePolicy",
    "overridable_clients",
    "overrides_of",
]

ClientKind = Literal["producer", "consumer", "admin"]

_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
ALLOWLIST = "connector.client.config.override.allowlist"


def overridable_clients(
    connector_type: str, config: Mapping[str, str], *, exactly_once: bool = False
) -> Iterator[ClientKind]:
    """Yield the kinds of clients that such a connector uses, for which its overrides matter."""
    source = connector_type == "source"
    dead_letters = not source and bool(config.get(_DEAD_LETTERS, "").strip())
    own_offsets = source and (exactly_once or "offsets.storage.topic" in config)
    creates_topics = source and any(key.startswith("topic.creation.") for key in config)
    if source or dead_letters:
        yield "producer"
    if not source or own_offsets:
        yield "consumer"
    if creates_topics or own_offsets or dead_letters:
        yield "admin"


def overrides_of(client: ClientKind, config: Mapping[str, str]) -> dict[str, str]:
    """Return a connector's overrides for one kind of client, without their prefix."""
    prefix = f"{client}.override."
    return {
        key[len(prefix) :]: value
        for key, value in config.items()
        if key.startswith(prefix) and key != prefix
    }


@dataclass(frozen=True, slots=True)
class OverrideRequest:
    """A connector's overrides for one kind of client. Values may be secrets."""

    connector: str
    connector_type: str
    client: ClientKind
    properties: Mapping[str, str] = field(repr=False)
    """The overridden properties, without their prefix."""


class ConnectorClientConfigOverridePolicy(ABC):
    """A policy for client overrides. Created without arguments and configured once; then
    thread-safe.
    """

    def configure(self, props: Mapping[str, str]) -> None:  # noqa: B027 - optional hook
        """Accept the worker's properties. Raises `ConfigError`."""

    @abstractmethod
    def refusals(self, request: OverrideRequest) -> Mapping[str, str]:
        """Return the properties that may not be overridden, with reasons; empty if all may."""


class _NamedPolicy(ConnectorClientConfigOverridePolicy):
    """A policy that decides by the property's name alone."""

    NAME = ""

    @abstractmethod
    def allows(self, name: str) -> bool: ...

    def refusals(self, request: OverrideRequest) -> Mapping[str, str]:
        return {
            name: f"The '{self.NAME}' policy does not allow '{name}' to be overridden in the"
            " connector configuration."
            for name in request.properties
            if not self.allows(name)
        }


class AllConnectorClientConfigOverridePolicy(_NamedPolicy):
    """Allows all overrides. The default."""

    NAME = "All"

    def allows(self, name: str) -> bool:
        return True


class NoneConnectorClientConfigOverridePolicy(_NamedPolicy):
    """Allows no overrides."""

    NAME = "None"

    def allows(self, name: str) -> bool:
        return False


class PrincipalConnectorClientConfigOverridePolicy(_NamedPolicy):
    """Allows only overrides of the client's login."""

    NAME = "Principal"

    def allows(self, name: str) -> bool:
        return name in ("sasl.jaas.config", "sasl.mechanism", "security.protocol")


class AllowlistConnectorClientConfigOverridePolicy(_NamedPolicy):
    """Allows only properties in the worker's `connector.client.config.override.allowlist`."""

    NAME = "Allowlist"

    def __init__(self) -> None:
        self._allowed: frozenset[str] = frozenset()

    def configure(self, props: Mapping[str, str]) -> None:
        names = parse_value(ALLOWLIST, props.get(ALLOWLIST, ""), ConfigType.LIST)
        assert isinstance(names, tuple)
        self._allowed = frozenset(names)

    def allows(self, name: str) -> bool:
        return name in self._allowed
