"""Check whether the brokers of a cluster support the APIs that a flow needs.

The copier needs one fixed version of Fetch and one of Produce. It negotiates the versions of all
other APIs with each broker.
"""

from __future__ import annotations

import re
from typing import Literal

from connect.clients.transactions.coordinator import CLAIM
from connect.clients.wire.api_versions import ApiNeed, BrokerApis
from connect.protocol.messages import FETCH_API, FETCH_VERSION, PRODUCE_API, PRODUCE_VERSION

__all__ = ["STORED_FORMAT", "Side", "exactly_once_refusal", "format_refusal", "refusal"]

STORED_FORMAT = "message.format.version"
"""The message format of brokers before Kafka 4.0. Brokers from 3.0 on ignore the setting."""

Side = Literal["source", "target"]

_FETCH = ApiNeed(FETCH_API, "Fetch", FETCH_VERSION, FETCH_VERSION)
_PRODUCE = ApiNeed(PRODUCE_API, "Produce", PRODUCE_VERSION, PRODUCE_VERSION)
_OLDEST = "2.4"
_FIRST_IDEMPOTENT = (0, 11)


def refusal(alias: str, side: Side, apis: BrokerApis) -> str | None:
    """Return why the cluster `alias` cannot be the `side` (source or target) of a flow, and the
    remedy. None if it can."""
    need = _FETCH if side == "source" else _PRODUCE
    lack = apis.lacks(need)
    if lack is None:
        return None
    direction = "from" if side == "source" else "to"
    return (
        f"Cluster {alias} cannot be mirrored {direction}: its broker {apis.address} {lack}. "
        f"{_remedy(need, apis)}"
    )


def exactly_once_refusal(alias: str, key: str, apis: BrokerApis) -> str | None:
    """Return why a flow to the cluster `alias` cannot use exactly-once, and the remedy. None if it
    can.

    `key`: the property that enables exactly-once.
    """
    lack = apis.lacks(CLAIM)
    if lack is None:
        return None
    return (
        f"Cluster {alias} is too old for exactly-once: its broker {apis.address} {lack} "
        f"(KIP-360). Upgrade its brokers to Kafka 2.5 or newer, or set {key}=disabled"
    )


def format_refusal(stored_format: str | None) -> str | None:
    """Return why a topic on a target before Kafka 3.0 cannot hold copies, and the remedy.

    `stored_format`: the topic's message.format.version. The text completes a sentence that starts
    with the topic's name.
    """
    if stored_format is None or _major_minor(stored_format) >= _FIRST_IDEMPOTENT:
        return None
    return (
        f"uses message format {stored_format}, for which brokers refuse the mirror's idempotent "
        "producers; set the topic's message.format.version, or the brokers' "
        "log.message.format.version, to 0.11.0 or newer"
    )


def _major_minor(version: str) -> tuple[int, int]:
    """Parse `0.10.2-IV0` as (0, 10). An unknown format counts as the newest."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else _FIRST_IDEMPOTENT


def _remedy(need: ApiNeed, apis: BrokerApis) -> str:
    offered = apis.versions.get(need.api_key)
    if offered is not None and offered[0] > need.highest:
        return (
            "This release of kafka-connect-mirror is too old for the broker: upgrade "
            "kafka-connect-mirror"
        )
    return f"Upgrade its brokers to Kafka {_OLDEST} or newer"
