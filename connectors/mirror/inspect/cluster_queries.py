"""Names the cluster that does not answer, for commands that query both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from connect.errors import BrokerUnavailable, RetriableError

__all__ = ["REACH_S", "asking"]

REACH_S = 20.0
"""How long a command waits for a cluster's first response."""


@contextmanager
def asking(side: str, client: Mapping[str, str]) -> Iterator[None]:
    """Wrap the first query to the `source` or the `target`, whose client properties these are.
    Raises `BrokerUnavailable` with the addresses if the cluster does not answer."""
    try:
        yield
    except RetriableError as error:
        servers = client.get("bootstrap.servers", "")
        raise BrokerUnavailable(
            f"The {side} cluster at {servers} does not answer: {error}. Check that its brokers run "
            "and can be reached, and what the properties say of them"
        ) from error
