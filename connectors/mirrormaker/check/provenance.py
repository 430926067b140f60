"""The effective properties of a flow's clients, and the key of the file that each came from.

The precedence rules are not repeated here. The value of each connector property is replaced by the
property's name, and the real rules run on those. Each result then names the key that it came from.
Values that may be secret are hidden. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from connect.config.security import SECURITY_KEYS
from connect.config.types import HIDDEN, ConfigType
from connectors.mirror.config import clients as client_configs
from connectors.mirrormaker.check.report import ClientReport, ClientSetting
from connectors.mirrormaker.config.precedence import Setting, Settings

__all__ = ["connector_clients", "data_producer", "shown_value"]

_PASSWORDS = frozenset(key.name for key in SECURITY_KEYS if key.type is ConfigType.PASSWORD)
_MAY_BE_SECRET = re.compile(r"password|secret|token|credential|jaas|private|\.key$", re.IGNORECASE)

BUILT_IN = "built in"

ClientRules = Callable[[Mapping[str, str]], dict[str, str]]

CLIENTS: Mapping[str, ClientRules] = {
    "source consumer": client_configs.source_consumer,
    "offset syncs producer": client_configs.offset_syncs_producer,
    "source admin": client_configs.source_admin,
    "target admin": client_configs.target_admin,
}

_SHAPING = frozenset(
    {"name", "offset-syncs.topic.location", "source.cluster.alias", "target.cluster.alias"}
)
"""Connector properties that keep their values, because the rules interpret them."""


def shown_value(key: str, value: str) -> str:
    """Return `value` with secrets hidden."""
    name = key.removeprefix("producer.").removeprefix("consumer.").removeprefix("admin.")
    secret = name in _PASSWORDS or _MAY_BE_SECRET.search(name) is not None
    return HIDDEN if secret else value


def connector_clients(settings: Settings, resolved: Mapping[str, str]) -> list[ClientReport]:
    """Return the clients that a source connector creates. `settings`: its properties with their
    origin. `resolved`: the same with the variables of config providers replaced."""
    traced = {key: value if key in _SHAPING else key for key, value in resolved.items()}
    reports = []
    for role, rules in CLIENTS.items():
        origins = rules(traced)
        reports.append(
            ClientReport(
                role,
                tuple(
                    ClientSetting(
                        name, shown_value(name, value), _told(settings.get(origins[name]))
                    )
                    for name, value in sorted(rules(resolved).items())
                ),
            )
        )
    return reports


def data_producer(
    properties: Mapping[str, str],
    worker: Settings,
    connector: Settings,
) -> ClientReport:
    """Return the producer of the copied records, which belongs to the worker. `properties`: its
    effective properties."""
    found = []
    for name, value in sorted(properties.items()):
        override = connector.get(f"producer.override.{name}")
        origin = override or worker.get(f"producer.{name}")
        if origin is None and name == "bootstrap.servers":
            origin = worker.get(name)
        found.append(ClientSetting(name, shown_value(name, value), _told(origin)))
    return ClientReport("producer of the copied records", tuple(found))


def _told(origin: Setting | None) -> str:
    if origin is None or not origin.key:
        return BUILT_IN
    return origin.key if origin.line is None else f"{origin.key} (line {origin.line})"
