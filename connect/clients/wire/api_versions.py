"""Compare the API versions of a cluster's brokers with those that this program needs."""

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
    """The API versions that a broker supports. `address` is host and port."""

    address: str
    versions: Mapping[int, tuple[int, int]]
    """Api key -> (lowest, highest)."""

    @property
    def before_3_0(self) -> bool:
        """Whether the broker is older than Kafka 3.0, which added DescribeTransactions."""
        return _DESCRIBE_TRANSACTIONS not in self.versions

    def lacks(self, need: ApiNeed) -> str | None:
        """Return why the broker lacks this API, as the end of a sentence about it, or None if it
        has it.
        """
        offered = self.versions.get(need.api_key)
        if offered is None:
            return f"does not support {need.name}; version {need.lowest} is needed"
        lowest, highest = offered
        if highest < need.lowest:
            return f"supports {need.name} up to version {highest}; version {need.lowest} is needed"
        if lowest > need.highest:
            return (
                f"supports {need.name} from version {lowest} on; version {need.highest} is needed"
            )
        return None


def broker_apis(props: Mapping[str, str], deadline: Deadline) -> BrokerApis:
    """Return the API versions of the first bootstrap server that answers.

    The other brokers are assumed to have the same versions. `props` are Java client properties.
    Raises one of `connect.errors`. Blocks; safe to call from any thread.
    """
    with closing(any_broker(wire_settings(props), deadline)) as connection:
        return BrokerApis(str(connection), dict(connection.api_versions))
