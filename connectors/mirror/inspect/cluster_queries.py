"""The common parts of commands that query clusters: errors that name the cluster, and topics that a
listing leaves out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from connect.clients.errors import error_from_code
from connect.clients.librdkafka.admin import Admin
from connect.clients.wire.bootstrap_probe import need_login
from connect.clock import Deadline
from connect.errors import BrokerUnavailable, RetriableError
from connect.protocol.error_codes import ErrorCode

__all__ = ["REACH_S", "asking", "refuse_hidden"]

REACH_S = 20.0
"""Timeout for a cluster's first response to a command."""

_LOGIN_S = 5.0
_SHOWN = 5


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


def refuse_hidden(admin: Admin, topics: Collection[str], needed: str = "Read") -> None:
    """Raise `BrokerError` if the user may not describe one of these topics, for which an operation
    is `needed`.

    A listing leaves such a topic out, so that it would count as missing.
    """
    hidden = sorted(admin.forbidden_topics(topics, REACH_S))
    if hidden:
        raise error_from_code(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            f"Describing topic {hidden[0]}",
            needs=f"{needed} on topic {', '.join(hidden[:_SHOWN])}",
        )
