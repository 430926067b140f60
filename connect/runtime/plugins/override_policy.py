"""Which properties of their clients connectors may override (`producer.override.` and so on)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from connect.config.types import ConfigType, parse_value
from connect.errors import ConfigError

__all__ = [
    "AllConnectorClientConfigOverridePolicy",
    "AllowlistConnectorClientConfigOverridePolicy",
    "ClientKind",
    "ConnectorClientConfigOverridePolicy",
    "NoneConnectorClientConfigOverridePolicy",
    "OverrideRequest",
    "PrincipalConnectorClientConfigOverridePolicy",
    "check_overrides",
    "overridable_clients",
]

ClientKind = Literal["producer", "consumer", "admin"]

_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
ALLOWLIST = "connector.client.config.override.allowlist"


def overridable_clients(
    connector_type: str, config: Mapping[str, str], *, exactly_once: bool = False
) -> Iterator[ClientKind]:
    """The kinds of clients that such a connector has, so that its overrides of them matter."""
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


def check_overrides(
    policy: ConnectorClientConfigOverridePolicy,
    name: str,
    connector_type: Literal["source", "sink"],
    config: Mapping[str, str],
    *,
    exactly_once: bool = False,
) -> None:
    """Raises `ConfigError` for the first property in a connector's config that the policy does not
    let it override."""
    for client in overridable_clients(connector_type, config, exactly_once=exactly_once):
        prefix = f"{client}.override."
        overridden = {
            key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)
        }
        request = OverrideRequest(name, connector_type, client, overridden)
        for key, refusal in policy.refusals(request).items():
            raise ConfigError(refusal, key=prefix + key)
