"""Adds the cluster's name to connection errors of commands that query both clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from connect.errors import BrokerUnavailable, RetriableError

__all__ = ["REACH_S", "asking"]

REACH_S = 20.0
"""Timeout for a cluster's first response to a command."""


@contextmanager
def asking(side: str, client: Mapping[str, str]) -> Iterator[None]:
    """Wrap the first query to the `source` or the `target`, which uses the `client` properties.

    Raises `BrokerUnavailable` with the addresses if the cluster does not answer.
    """
    try:
        yield
    except RetriableError as error:
        servers = client.get("bootstrap.servers", "")
        raise BrokerUnavailable(
            f"The {side} cluster at {servers} does not answer: {error}. Check that its brokers "
            f"are running and reachable, and check the {side}'s client properties"
        ) from error
