"""Remedies to add to errors when a cluster refuses a transactional producer."""

from __future__ import annotations

from collections.abc import Mapping

from connect.clients.errors import broker_code
from connect.errors import BrokerError, ConnectError, DeadlineExceeded
from connect.protocol.error_codes import ErrorCode

__all__ = ["TRANSACTION_TIMEOUT", "transaction_timeout", "with_transaction_remedy"]

TRANSACTION_TIMEOUT = "transaction.timeout.ms"
"""The producer property of the transaction timeout."""

_DEFAULT_TIMEOUT_MS = "60000"


def transaction_timeout(properties: Mapping[str, str]) -> str:
    """Return the transaction timeout of a producer with these properties, in milliseconds."""
    return properties.get(TRANSACTION_TIMEOUT, _DEFAULT_TIMEOUT_MS)


def with_transaction_remedy(
    error: ConnectError, transactional_id: str, timeout_ms: str
) -> ConnectError:
    """Return the error with a remedy added, if one is known.

    `timeout_ms` is the producer's transaction.timeout.ms.
    """
    if isinstance(error, DeadlineExceeded):
        return DeadlineExceeded(
            f"{error}; no transaction coordinator of the cluster responds: check that topic"
            f" __transaction_state exists and its partitions have leaders; creating it takes as"
            f" many brokers as transaction.state.log.replication.factor"
        )
    code = broker_code(error)
    if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        remedy = f"grant Write and Describe on the transactional id {transactional_id}"
    elif code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        remedy = (
            f"grant Write on the transactional id {transactional_id}, or IdempotentWrite on the"
            " cluster"
        )
    elif code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        remedy = (
            f"lower the producer's transaction.timeout.ms, which is {timeout_ms}, or raise the"
            " brokers' transaction.max.timeout.ms"
        )
    else:
        return error
    return BrokerError(f"{str(error).rstrip('.')}; {remedy}", code)
