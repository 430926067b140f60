"""Fence transactional producers, like Java's `Admin.fenceProducers` (KIP-618).

A new producer id or epoch for a transactional id fences its earlier producers and aborts their open
transactions. One request to the id's coordinator does that; no producer is needed. The new producer
id and epoch may be used for writing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.producer import InitProducerIdRequest

from connect.clients.config.properties import wire_settings
from connect.clients.errors import error_from_code
from connect.clients.transactions.coordinator import ProducerIdentity
from connect.clients.transactions.remedies import with_transaction_remedy
from connect.clients.wire.connection import WireConnection, open_connection
from connect.clients.wire.find_coordinator import (
    Coordinated,
    any_broker,
    coordinator_address,
    open_coordinator,
)
from connect.errors import BrokerError, BrokerUnavailable, ConnectError, Interrupted
from connect.log_fields import OwnedPool
from connect.loop import Backoff, retry
from connect.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from connect.clients.config.settings import WireSettings
    from connect.clients.wire.cancellation import Cancellation
    from connect.clients.wire.find_coordinator import Address
    from connect.clock import Deadline

__all__ = ["claim_producers", "fence_producers", "was_claimed"]

_log = logging.getLogger(__name__)

_RETRY_S, _RETRY_CAP_S = 0.05, 1.0
_CONNECTIONS = 8
_IDS_PER_CONNECTION = 100
# Nothing is written with these ids, so their transactions need no time.
_TRANSACTION_TIMEOUT_MS = 1000

# The newest version whose fields are all handled here.
_INIT_VERSION = 5

# Ids to retry, each with the error of its last attempt.
_Left = tuple[list[str], ConnectError | None]
_Claimed = dict[str, ProducerIdentity]


def fence_producers(
    properties: Mapping[str, str],
    transactional_ids: Collection[str],
    deadline: Deadline,
    cancellation: Cancellation | None = None,
) -> None:
    """Fence all earlier producers of these ids.

    `properties` are Java admin client properties. Uses at most eight connections at a time.
    Coordinators that move or still end a transaction are asked again until the deadline; then the
    last error is raised, and fatal ones at once. Raises `Interrupted` when cancelled. Blocks; safe
    to call from any thread.
    """
    claim_producers(
        wire_settings(properties),
        transactional_ids,
        deadline,
        timeout_ms=_TRANSACTION_TIMEOUT_MS,
        cancellation=cancellation,
    )


def claim_producers(
    settings: WireSettings,
    transactional_ids: Collection[str],
    deadline: Deadline,
    *,
    timeout_ms: int,
    cancellation: Cancellation | None = None,
) -> dict[str, ProducerIdentity]:
    """Fence producers as `fence_producers` does. Return the new identity of each transactional id.

    `timeout_ms` is the transaction timeout.
    """
    claimed: _Claimed = {}
    pending = sorted(set(transactional_ids))
    backoff = Backoff(_RETRY_S, _RETRY_CAP_S)
    while pending:
        work = _Round(settings, timeout_ms, claimed, deadline, cancellation)
        pending, error = _attempt(work, pending)
        if error is None:
            continue
        _check(cancellation, error)
        wait = backoff.next()
        if deadline.remaining() <= wait:
            raise error
        _log.debug("Still fencing out %d producers: %s", len(pending), error)
        _pause(wait, cancellation)
        _check(cancellation, error)
    return claimed


def was_claimed(
    settings: WireSettings,
    transactional_id: str,
    deadline: Deadline,
    cancellation: Cancellation | None = None,
) -> bool | None:
    """Return whether the brokers know a producer of this id; None if they cannot tell (before 3.0).

    They forget an id a week after its last write (`transactional.id.expiration.ms`). Returns False
    if this client may not describe the id, because then it never wrote with it. Raises
    `Interrupted` when cancelled.
    """

    def ask() -> bool | None:
        opened = open_coordinator(
            settings, Coordinated.TRANSACTION, transactional_id, deadline, cancellation
        )
        with closing(opened) as connection:
            if DescribeTransactionsRequest.API_KEY not in connection.api_versions:
                return None
            request = DescribeTransactionsRequest(version=0, transactional_ids=[transactional_id])
            (state,) = connection.call(request, deadline).transaction_states
        if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return False
        if state.error_code:
            what = f"Describing the producer {transactional_id}"
            needs = f"Describe on transactional id {transactional_id}"
            raise error_from_code(state.error_code, what, needs=needs)
        return True

    def pause(seconds: float) -> bool:
        _pause(seconds, cancellation)
        return cancellation is not None and cancellation.is_set()

    try:
        return retry(ask, deadline, Backoff(_RETRY_S, _RETRY_CAP_S), pause)
    except BrokerError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise
        return False
    except ConnectError as error:
        _check(cancellation, error)
        raise


class _Round(NamedTuple):
    """Settings shared by all transactional ids of one call. `claimed` is called with each
    result.
    """

    settings: WireSettings
    timeout_ms: int
    claimed: _Claimed
    deadline: Deadline
    cancellation: Cancellation | None


def _attempt(work: _Round, ids: Sequence[str]) -> _Left:
    """Try to fence these ids. Return those to retry; raise fatal errors."""
    left: list[str] = []
    last: ConnectError | None = None
    by_coordinator: dict[Address, list[str]] = {}
    try:
        with closing(any_broker(work.settings, work.deadline, work.cancellation)) as connection:
            for name in ids:
                address, error = _coordinator(connection, name, work.deadline)
                if address is not None:
                    by_coordinator.setdefault(address, []).append(name)
                else:
                    left.append(name)
                    last = error
    except ConnectError as error:
        return list(ids), _retriable(error)
    jobs = [(address, part) for address, of_it in by_coordinator.items() for part in _parts(of_it)]

    with OwnedPool(_CONNECTIONS, thread_name_prefix="fence") as pool:
        for again, failure in pool.map(lambda job: _fence_at(job[0], job[1], work), jobs):
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


def _fence_at(address: Address, ids: Sequence[str], work: _Round) -> _Left:
    left: list[str] = []
    last: ConnectError | None = None
    done = 0
    try:
        opened = open_connection(*address, work.settings, work.deadline, work.cancellation)
        with closing(opened) as connection:
            for name in ids:
                error = _fence(connection, name, work)
                if error is not None:
                    left.append(name)
                    last = error
                done += 1
    except ConnectError as error:
        return [*left, *ids[done:]], _retriable(error)
    return left, last


def _fence(connection: WireConnection, name: str, work: _Round) -> ConnectError | None:
    """Fence one id. Return the error if it must be retried, or None."""
    request = InitProducerIdRequest(
        version=connection.version_of(InitProducerIdRequest.API_KEY, _INIT_VERSION),
        transactional_id=name,
        transaction_timeout_ms=work.timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )
    answer = connection.call(request, work.deadline)
    if answer.error_code == 0:
        work.claimed[name] = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        return None
    what = f"Fencing out producers of the transactional id {name}"
    error = error_from_code(answer.error_code, what)
    return _retriable(with_transaction_remedy(error, name, str(work.timeout_ms)))


def _retriable(error: ConnectError) -> ConnectError:
    """Return the error if it is retriable, raise it if not."""
    if not error.retriable:
        raise error
    return error


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (
        ids[start : start + _IDS_PER_CONNECTION]
        for start in range(0, len(ids), _IDS_PER_CONNECTION)
    )


def _check(cancellation: Cancellation | None, error: ConnectError) -> None:
    """Raise if cancelled, with `error` as the last known error."""
    if cancellation is not None and cancellation.is_set():
        raise Interrupted("Fencing out producers was cancelled") from error


def _pause(seconds: float, cancellation: Cancellation | None) -> None:
    if cancellation is None:
        threading.Event().wait(seconds)
    else:
        cancellation.wait(seconds)
