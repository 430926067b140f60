"""Find the coordinator of a group or a transactional id, over raw connections."""

from __future__ import annotations

from contextlib import closing
from enum import Enum
from typing import TYPE_CHECKING

from kafka.protocol.metadata import FindCoordinatorRequest

from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.wire.connection import WireConnection, open_connection
from connect.clock import Deadline
from connect.errors import BrokerUnavailable, ConnectError

if TYPE_CHECKING:
    from connect.clients.wire.cancellation import Cancellation

__all__ = ["Coordinated", "any_broker", "coordinator_address", "open_coordinator"]

Address = tuple[str, int]


class Coordinated(Enum):
    """The kind of a coordinator. The values are FindCoordinator's `key_type`."""

    GROUP = 0
    TRANSACTION = 1

    def needs(self, name: str) -> str:
        """Return what to grant to a client that may not even find the coordinator. A client that
        looks for the coordinator of a transactional id also writes with that id."""
        if self is Coordinated.GROUP:
            return f"Describe on group {name}"
        return f"Write and Describe on the transactional id {name}"


def any_broker(
    settings: WireSettings, deadline: Deadline, cancellation: Cancellation | None = None
) -> WireConnection:
    """Open a connection to the first bootstrap server that answers; the caller closes it.

    Raises the error of the last server if none answers.
    """
    last: ConnectError = BrokerUnavailable("No bootstrap server is configured")
    for host, port in settings.bootstrap:
        try:
            return open_connection(host, port, settings, deadline, cancellation)
        except ConnectError as error:
            if not error.retriable:
                raise
            last = error
    raise last


def coordinator_address(
    connection: WireConnection, kind: Coordinated, name: str, deadline: Deadline
) -> Address:
    """Return host and port of the coordinator. Raises a retriable error if there is none yet."""
    request = FindCoordinatorRequest(key=name, key_type=kind.value, coordinator_keys=[name])
    answer = connection.call(request, deadline)
    found = answer.coordinators[0] if answer.coordinators else answer
    if found.error_code:
        raise error_from_code(
            found.error_code,
            f"Finding the coordinator of {name}",
            needs=kind.needs(name),
        )
    return found.host, found.port


def open_coordinator(
    settings: WireSettings,
    kind: Coordinated,
    name: str,
    deadline: Deadline,
    cancellation: Cancellation | None = None,
) -> WireConnection:
    """Open a connection to the coordinator; the caller closes it."""
    with closing(any_broker(settings, deadline, cancellation)) as connection:
        host, port = coordinator_address(connection, kind, name, deadline)
    return open_connection(host, port, settings, deadline, cancellation)
