"""Says which of two clusters does not answer, for commands that ask both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from connect.errors import BrokerUnavailable, RetriableError

__all__ = ["REACH_S", "asking"]

REACH_S = 20.0
"""So long a command waits for a cluster's first answer."""


@contextmanager
def asking(side: str, client: Mapping[str, str]) -> Iterator[None]:
    """The first question to the `source` or the `target`, whose client properties these are. Raises
    `BrokerUnavailable` with its addresses where there is no answer."""
    try:
        yield
    except RetriableError as error:
        servers = client.get("bootstrap.servers", "")
        raise BrokerUnavailable(
            f"The {side} cluster at {servers} does not answer: {error}. See that its brokers run "
            "and can be reached, and what the properties say of them"
        ) from error
