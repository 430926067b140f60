"""Which brokers a flow can work with, and the sentence for those it cannot.

Copying speaks one version of Fetch and one of Produce; all else is negotiated with each broker.
"""

from __future__ import annotations

from typing import Literal

from connect.clients.api_versions import ApiNeed, BrokerApis
from connect.clients.transaction_coordinator import CLAIM
from connect.protocol.messages import FETCH_API, FETCH_VERSION, PRODUCE_API, PRODUCE_VERSION

__all__ = ["Side", "exactly_once_refusal", "refusal"]

Side = Literal["source", "target"]

_FETCH = ApiNeed(FETCH_API, "Fetch", FETCH_VERSION, FETCH_VERSION)
_PRODUCE = ApiNeed(PRODUCE_API, "Produce", PRODUCE_VERSION, PRODUCE_VERSION)
_OLDEST = "2.4"


def refusal(alias: str, side: Side, apis: BrokerApis) -> str | None:
    """Why the cluster `alias` cannot be this side of a flow, and what to do; None if it can."""
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
    """Why a flow to the cluster `alias` cannot write exactly once, and what to do. `key`: the
    property that asks for it."""
    lack = apis.lacks(CLAIM)
    if lack is None:
        return None
    return (
        f"Cluster {alias} is too old for exactly-once: its broker {apis.address} {lack} "
        f"(KIP-360). Upgrade its brokers to Kafka 2.5 or newer, or set {key}=disabled"
    )


def _remedy(need: ApiNeed, apis: BrokerApis) -> str:
    offered = apis.versions.get(need.api_key)
    if offered is not None and offered[0] > need.highest:
        return "This release is too old for it: upgrade kafka-connect-mirror"
    return f"Upgrade its brokers to Kafka {_OLDEST} or newer"
