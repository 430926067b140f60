"""Fences out transactional producers: what Java's `Admin.fenceProducers` does (KIP-618).

A new producer id or epoch for a transactional id makes whoever had it before unable to write, and
ends the transaction it left open. Asking for one needs no producer: it is one request to the id's
coordinator.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from kafka.protocol.producer import InitProducerIdRequest

from connect.clients.coordinators import Coordinated, any_broker, coordinator_address
from connect.clients.errors import error_from_code
from connect.clients.properties import wire_settings
from connect.clients.wire import WireConnection, open_connection
from connect.errors import BrokerUnavailable, ConnectError
from connect.loop import Backoff

if TYPE_CHECKING:
    from connect.clients.cancellation import Cancellation
    from connect.clients.coordinators import Address
    from connect.clients.settings import WireSettings
    from connect.clock import Deadline

__all__ = ["fence_producers"]

_log = logging.getLogger(__name__)

_RETRY_S, _RETRY_CAP_S = 0.05, 1.0
_CONNECTIONS = 8
_IDS_PER_CONNECTION = 100
# Nothing is ever written with the ids that are asked for here: their transactions need no time.
_TRANSACTION_TIMEOUT_MS = 1000

# Ids that are to be tried again, and why the last of them is.
_Left = tuple[list[str], ConnectError | None]


def fence_producers(
    properties: Mapping[str, str],
    transactional_ids: Collection[str],
    deadline: Deadline,
    cancellation: Cancellation | None = None,
) -> None:
    """Returns when no earlier producer of these ids can write any more.

    `properties` are an admin client's, Java's names. At most eight connections at a time.
    Coordinators that move or are still ending a transaction are asked again until the deadline;
    then, and for what is not allowed, the `ConnectError` of the last answer is raised. Blocks; safe
    to call from any thread.
    """
    settings = wire_settings(properties)
    pending = sorted(set(transactional_ids))
    backoff = Backoff(_RETRY_S, _RETRY_CAP_S)
    while pending:
        pending, error = _attempt(settings, pending, deadline, cancellation)
        if error is None:
            continue
        wait = backoff.next()
        if deadline.remaining() <= wait:
            raise error
        _log.debug("%d producers are not fenced out yet: %s", len(pending), error)
        _pause(wait, cancellation)


def _attempt(
    settings: WireSettings,
    ids: Sequence[str],
    deadline: Deadline,
    cancellation: Cancellation | None,
) -> _Left:
    """Raises what trying again does not help."""
    left: list[str] = []
    last: ConnectError | None = None
    by_coordinator: dict[Address, list[str]] = {}
    try:
        with closing(any_broker(settings, deadline, cancellation)) as connection:
            for name in ids:
                address, error = _coordinator(connection, name, deadline)
                if address is not None:
                    by_coordinator.setdefault(address, []).append(name)
                else:
                    left.append(name)
                    last = error
    except ConnectError as error:
        return list(ids), _retriable(error)
    jobs = [(address, part) for address, of_it in by_coordinator.items() for part in _parts(of_it)]

    def work(job: tuple[Address, Sequence[str]]) -> _Left:
        return _fence_at(job[0], settings, job[1], deadline, cancellation)

    with ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="fence") as pool:
        for again, failure in pool.map(work, jobs):
            left += again
            last = failure or last
    return left, last


def _coordinator(
    connection: WireConnection, name: str, deadline: Deadline
) -> tuple[Address | None, ConnectError | None]:
    try:
        return coordinator_address(connection, Coordinated.TRANSACTION, name, deadline), None
    except BrokerUnavailable:
        raise
    except ConnectError as error:
        return None, _retriable(error)


def _fence_at(
    address: Address,
    settings: WireSettings,
    ids: Sequence[str],
    deadline: Deadline,
    cancellation: Cancellation | None,
) -> _Left:
    left: list[str] = []
    last: ConnectError | None = None
    done = 0
    try:
        with closing(open_connection(*address, settings, deadline, cancellation)) as connection:
            for name in ids:
                error = _fence(connection, name, deadline)
                if error is not None:
                    left.append(name)
                    last = error
                done += 1
    except ConnectError as error:
        return [*left, *ids[done:]], _retriable(error)
    return left, last


def _fence(connection: WireConnection, name: str, deadline: Deadline) -> ConnectError | None:
    """Why it has to be tried again; None: it is done."""
    request = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
    )
    code = connection.call(request, deadline).error_code
    if code == 0:
        return None
    return _retriable(
        error_from_code(code, f"Fencing out producers of the transactional id {name}")
    )


def _retriable(error: ConnectError) -> ConnectError:
    """The error, for those who go on with the rest. Raises it where trying again cannot help."""
    if not error.retriable:
        raise error
    return error


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (
        ids[start : start + _IDS_PER_CONNECTION]
        for start in range(0, len(ids), _IDS_PER_CONNECTION)
    )


def _pause(seconds: float, cancellation: Cancellation | None) -> None:
    if cancellation is None:
        threading.Event().wait(seconds)
    else:
        cancellation.wait(seconds)
