"""Compares the API versions of a cluster's brokers with those that are needed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from connect.clients.config.properties import wire_settings
from connect.clients.wire.find_coordinator import any_broker
from connect.clock import Deadline

__all__ = ["ApiNeed", "BrokerApis", "broker_apis"]


_DESCRIBE_TRANSACTIONS = 65


class ApiNeed(NamedTuple):
    """The API versions that this program supports; the broker must support one of them."""

    api_key: int
    name: str
    lowest: int
    highest: int


class BrokerApis(NamedTuple):
    """The versions that a broker takes. `address`: host and port."""

    address: str
    versions: Mapping[int, tuple[int, int]]
    """Api key -> (lowest, highest)."""

    @property
    def before_3_0(self) -> bool:
        """Whether it is older than Kafka 3.0, which brought DescribeTransactions."""
        return _DESCRIBE_TRANSACTIONS not in self.versions

    def lacks(self, need: ApiNeed) -> str | None:
        """What it speaks instead, as the end of a sentence about the broker; None if it has it."""
        offered = self.versions.get(need.api_key)
        if offered is None:
            return f"does not know {need.name}, of which version {need.lowest} is needed"
        lowest, highest = offered
        if highest < need.lowest:
            return f"speaks {need.name} up to version {highest}, and {need.lowest} is needed"
        if lowest > need.highest:
            return f"speaks {need.name} from version {lowest} on, and {need.highest} is needed"
        return None


def broker_apis(props: Mapping[str, str], deadline: Deadline) -> BrokerApis:
    """What the first bootstrap server that answers speaks; for the other brokers it is taken to be
    the same, as in a cluster that is not being upgraded. `props`: Java client properties. Raises
    one of `connect.errors`. Blocks; safe to call from any thread."""
    with closing(any_broker(wire_settings(props), deadline)) as connection:
        return BrokerApis(str(connection), dict(connection.api_versions))
