"""Adds the cluster's name to connection errors of commands that query both clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from connect.clients.groups.bootstrap_probe import need_login
from connect.clock import Deadline
from connect.errors import BrokerUnavailable, RetriableError

__all__ = ["REACH_S", "asking"]

REACH_S = 20.0
"""Timeout for a cluster's first response to a command."""

_LOGIN_S = 5.0


@contextmanager
def asking(side: str, client: Mapping[str, str]) -> Iterator[None]:
    """Wrap the first query to the `source` or the `target`, which uses the `client` properties.

    Raises `BrokerUnavailable` with the addresses if the cluster does not answer, and at once
    `AuthenticationFailed` or `ConfigError` if it refuses the client.
    """
    try:
        need_login(client, Deadline(_LOGIN_S))
        yield
    except RetriableError as error:
        servers = client.get("bootstrap.servers", "")
        raise BrokerUnavailable(
            f"The {side} cluster at {servers} does not answer: {error}. Check that its brokers "
            f"are running and reachable, and check the {side}'s client properties"
        ) from error
