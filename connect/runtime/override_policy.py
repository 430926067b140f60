"""Which properties of their clients connectors may override (`producer.override.` and so on)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
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
]

ClientKind = Literal["producer", "consumer", "admin"]

ALLOWLIST = "connector.client.config.override.allowlist"


@dataclass(frozen=True, slots=True)
class OverrideRequest:
    """What one connector wants for one kind of its clients. Values may be secrets."""

    connector: str
    connector_type: str
    client: ClientKind
    properties: Mapping[str, str] = field(repr=False)
    """The overridden properties, without their prefix."""


class ConnectorClientConfigOverridePolicy(ABC):
    """Made without arguments, configured once; afterwards used from any thread."""

    def configure(self, props: Mapping[str, str]) -> None:  # noqa: B027 - optional hook
        """Take the worker's properties. Raises `ConfigError`."""

    @abstractmethod
    def refusals(self, request: OverrideRequest) -> Mapping[str, str]:
        """The properties that may not be overridden, and why not; empty when all may."""


class _NamedPolicy(ConnectorClientConfigOverridePolicy):
    """Decides by a property's name alone."""

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
    """Everything may be overridden. The default."""

    NAME = "All"

    def allows(self, name: str) -> bool:
        return True


class NoneConnectorClientConfigOverridePolicy(_NamedPolicy):
    """Nothing may be overridden."""

    NAME = "None"

    def allows(self, name: str) -> bool:
        return False


class PrincipalConnectorClientConfigOverridePolicy(_NamedPolicy):
    """Only who the client is: its login."""

    NAME = "Principal"

    def allows(self, name: str) -> bool:
        return name in ("sasl.jaas.config", "sasl.mechanism", "security.protocol")


class AllowlistConnectorClientConfigOverridePolicy(_NamedPolicy):
    """Only what the worker's `connector.client.config.override.allowlist` names."""

    NAME = "Allowlist"

    def __init__(self) -> None:
        self._allowed: frozenset[str] = frozenset()

    def configure(self, props: Mapping[str, str]) -> None:
        names = parse_value(ALLOWLIST, props.get(ALLOWLIST, ""), ConfigType.LIST)
        assert isinstance(names, tuple)
        self._allowed = frozenset(names)

    def allows(self, name: str) -> bool:
        return name in self._allowed
