"""The client properties of connectors: the worker's, then the overrides that its policy allows.

Only here do overrides of a connector's config reach a client, so that no client can bypass the
policy. The policy is asked when a client is made, as well as at validation, because it may have
changed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from connect.config.worker import WorkerConfig
from connect.errors import ConfigError
from connect.runtime.plugins.override_policy import (
    ClientKind,
    ConnectorClientConfigOverridePolicy,
    OverrideRequest,
    overrides_of,
)
from connect.runtime.plugins.registry import PluginRegistry

__all__ = ["ClientProperties", "ConnectorClients"]

_POLICY = "connector.client.config.override.policy"


@dataclass(slots=True)
class ConnectorClients:
    """The clients of all connectors of a worker. Thread-safe."""

    config: WorkerConfig
    policy: ConnectorClientConfigOverridePolicy

    @classmethod
    def of_worker(cls, config: WorkerConfig, plugins: PluginRegistry) -> ConnectorClients:
        """Return those under the policy that the worker's config names. Raises `ConfigError`."""
        kind = ConnectorClientConfigOverridePolicy
        policy = plugins.find(kind, config.override_policy, _POLICY)()
        policy.configure(config.originals)
        return cls(config, policy)

    def of(
        self, connector: str, connector_type: Literal["source", "sink"], props: Mapping[str, str]
    ) -> ClientProperties:
        """Return the clients of one connector. `props` is its config, resolved."""
        return ClientProperties(self.config, self.policy, connector, connector_type, props)


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """Java properties of one connector's clients. They may hold secrets.

    Each method raises `ConfigError` for the first override that the policy refuses.
    """

    _config: WorkerConfig
    _policy: ConnectorClientConfigOverridePolicy
    _connector: str
    _type: Literal["source", "sink"]
    _props: Mapping[str, str] = field(repr=False)

    def producer(self, client_id: str) -> dict[str, str]:
        """Return the worker's `producer.*`, overridden by `producer.override.*`."""
        return {
            **self._config.task_producer_properties(client_id),
            **self._allowed("producer"),
        }

    def consumer(self, client_id: str) -> dict[str, str]:
        """Return the worker's `consumer.*`, overridden by `consumer.override.*`."""
        return {
            **self._config.task_consumer_properties(self._connector, client_id),
            **self._allowed("consumer"),
        }

    def admin(self, client_id: str) -> dict[str, str]:
        """Return the worker's client properties and `admin.*`, overridden by `admin.override.*`."""
        return {**self._config.task_admin_properties(client_id), **self._allowed("admin")}

    def _allowed(self, client: ClientKind) -> Mapping[str, str]:
        overrides = overrides_of(client, self._props)
        request = OverrideRequest(self._connector, self._type, client, overrides)
        for name, refusal in self._policy.refusals(request).items():
            raise ConfigError(refusal, key=f"{client}.override.{name}")
        return overrides
