"""Write several records in one transaction, and fence earlier writers with the same id.

For small writes that must be visible as a whole. Transactional copying uses `coordinator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect.clients.errors import translated
from connect.clients.librdkafka.record_sender import RecordSender, transactional_properties
from connect.clients.transactions.remedies import transaction_timeout, with_transaction_remedy
from connect.clock import Deadline
from connect.errors import AuthenticationFailed, ConnectError

__all__ = ["TransactionalSender"]

# librdkafka requires a positive timeout.
_LEAST_S = 0.1
# How often a refused login is looked for.
_SLICE_S = 1.0

_FORCED = {"acks": "all", "linger.ms": "0"}


class TransactionalSender:
    """A producer with a transactional id. Not thread-safe.

    After any error only `close` may be called.
    """

    def __init__(self, properties: Mapping[str, str], transactional_id: str) -> None:
        self._id = transactional_id
        forced = transactional_properties({**properties, **_FORCED}, transactional_id)
        self._timeout_ms = transaction_timeout(forced)
        self._sender = RecordSender(forced, needs_login=True)

    def claim(self, deadline: Deadline) -> None:
        """Fence earlier producers of this transactional id and abort their open transactions.

        Raises `AuthenticationFailed` as soon as brokers refuse the login.
        """
        while True:
            slice_s = max(_LEAST_S, min(_SLICE_S, deadline.remaining()))
            try:
                with translated(f"Claiming the transactional id {self._id}"):
                    self._sender.producer.init_transactions(slice_s)
            except ConnectError as error:
                if not error.retriable or deadline.expired():
                    raise with_transaction_remedy(error, self._id, self._timeout_ms) from error
            else:
                return
            # The next call goes on waiting for the same answer.
            self._sender.need_login()

    def write(
        self, topic: str, records: Iterable[tuple[bytes, bytes | None]], deadline: Deadline
    ) -> None:
        """Write all (key, value) records in one transaction, and return when it is committed.

        Raises `ConnectError` if the commit may have failed, for example because another producer
        has claimed the id.
        """
        failures: list[ConnectError] = []

        def delivered(error: ConnectError | None, _metadata: object) -> None:
            if error is not None:
                failures.append(error)

        needs = f"Write on topic {topic} and on transactional id {self._id}"
        try:
            with translated(f"Writing to {topic} in a transaction of {self._id}", needs):
                self._sender.producer.begin_transaction()
                for key, value in records:
                    self._sender.send(topic, key, value, delivered)
                self._sender.producer.commit_transaction(max(_LEAST_S, deadline.remaining()))
        except ConnectError as error:
            if failures and isinstance(failures[0], AuthenticationFailed):
                # librdkafka only says that the records of the transaction were not delivered.
                raise failures[0] from error
            raise
        if failures:
            raise failures[0]

    def close(self, deadline: Deadline) -> None:
        """Close the connections.

        An open transaction is aborted by the next `claim`, or after its transaction timeout.
        """
        self._sender.close(deadline)
