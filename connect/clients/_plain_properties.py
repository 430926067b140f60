"""The plainest mapping of Java client properties to librdkafka's: names that both share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["librdkafka_config"]

_SHARED = (
    "bootstrap.servers",
    "client.id",
    "security.protocol",
    "group.id",
    "acks",
    "linger.ms",
    "enable.idempotence",
    "max.in.flight.requests.per.connection",
    "delivery.timeout.ms",
    "auto.offset.reset",
    "isolation.level",
)


def librdkafka_config(
    props: Mapping[str, str], kind: Literal["producer", "consumer", "admin"]
) -> dict[str, Any]:
    """Only the names that mean the same in both clients."""
    return {name: props[name] for name in _SHARED if name in props}
