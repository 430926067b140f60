"""Writes several records as one, and fences out whoever wrote before under the same name.

For small writes that must be seen whole or not at all; data copied in transactions goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect.clients.errors import translated
from connect.clients.librdkafka.record_sender import RecordSender, transactional_properties
from connect.clients.transactions.remedies import transaction_timeout, with_transaction_remedy
from connect.clock import Deadline
from connect.errors import ConnectError

__all__ = ["TransactionalSender"]

# librdkafka wants a positive timeout.
_LEAST_S = 0.1

_FORCED = {"acks": "all", "linger.ms": "0"}


class TransactionalSender:
    """A producer with a transactional id. Not safe for threads: its owner takes turns.

    After any error the only thing left is to `close` it.
    """

    def __init__(self, properties: Mapping[str, str], transactional_id: str) -> None:
        self._id = transactional_id
        forced = transactional_properties({**properties, **_FORCED}, transactional_id)
        self._timeout_ms = transaction_timeout(forced)
        self._sender = RecordSender(forced)

    def claim(self, deadline: Deadline) -> None:
        """Fence out all earlier producers of this transactional id, ending what they left open."""
        try:
            with translated(f"Claiming the transactional id {self._id}"):
                self._sender.producer.init_transactions(max(_LEAST_S, deadline.remaining()))
        except ConnectError as error:
            raise with_transaction_remedy(error, self._id, self._timeout_ms) from error

    def write(
        self, topic: str, records: Iterable[tuple[bytes, bytes | None]], deadline: Deadline
    ) -> None:
        """Write all records, (key, value) each, in one transaction; returns when it is committed.

        Raises `ConnectError` when it may not be: also when someone else has claimed the id since.
        """
        failures: list[ConnectError] = []

        def delivered(error: ConnectError | None, _metadata: object) -> None:
            if error is not None:
                failures.append(error)

        with translated(f"Writing to {topic} in a transaction of {self._id}"):
            self._sender.producer.begin_transaction()
            for key, value in records:
                self._sender.send(topic, key, value, delivered)
            self._sender.producer.commit_transaction(max(_LEAST_S, deadline.remaining()))
        if failures:
            raise failures[0]

    def close(self, deadline: Deadline) -> None:
        """Close the connections. A transaction left open ends with the next `claim`, or when the
        broker's time for it is over."""
        self._sender.close(deadline)
