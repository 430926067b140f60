"""Source offsets of a connector with its own offsets topic (`offsets.storage.topic`).

This follows Kafka Connect's documentation (KIP-618): the connector's topic is read first, then the
worker's for offsets that the connector's lacks, and both are written, so that one can go back. Java
4.3.1 behaves differently: it ignores the worker's topic, so a connector that gets its own topic
starts again from the beginning; here it continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from connect.clients.transactions.atomic_writer import TransactionalSender
from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded
from connect.futures import done_future, failed_future
from connect.plugin import RecordMetadata
from connect.storage.offset_store import OffsetStore, gathered

__all__ = ["ConnectorOffsetStore", "SingleTransactionOffsets", "TransactionalOffsets"]

_log = logging.getLogger(__name__)

_Values = Mapping[bytes, bytes | None]


class ConnectorOffsetStore:
    """An `OffsetStore` that combines two. It starts and stops `own`, but not the worker's `shared`.

    With `shared` None, `own` has everything, as when both are the same topic. `delete_timeout_s`
    limits how long `set` waits for a deletion in `shared`.
    """

    def __init__(
        self, own: OffsetStore, shared: OffsetStore | None, *, delete_timeout_s: float
    ) -> None:
        self._own = own
        self._shared = shared
        self._delete_timeout_s = delete_timeout_s

    def start(self, deadline: Deadline) -> None:
        self._own.start(deadline)

    def get(self, keys: Iterable[bytes], deadline: Deadline) -> dict[bytes, bytes]:
        wanted = list(keys)
        found = self._own.get(wanted, deadline)
        if self._shared is None:
            return found
        # The read also happens if no offset is missing, because it updates `partitions_of`.
        missing = [key for key in wanted if key not in found]
        return {**self._shared.get(missing, deadline), **found}

    def set(self, values: _Values) -> Future[None]:
        """Store offsets: deletions first in `shared`, then everything in `own`.

        Otherwise a read could find a deleted offset in `shared` again. Other offsets go to `shared`
        after `own` has stored them, and a failure is only logged.
        """
        if self._shared is None:
            return self._own.set(values)
        shared = self._shared
        try:
            self._delete([key for key, value in values.items() if value is None], shared)
        except ConnectError as error:
            return failed_future(error)
        rest = {key: value for key, value in values.items() if value is not None}
        stored = self._own.set(values)

        def copy(done: Future[None]) -> None:
            if done.exception() is None and rest:
                shared.set(rest).add_done_callback(_say_if_failed)

        stored.add_done_callback(copy)
        return stored

    def partitions_of(self, connector: str) -> frozenset[bytes]:
        own = self._own.partitions_of(connector)
        return own if self._shared is None else own | self._shared.partitions_of(connector)

    def marks(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """Return the marks of `own`, which has every key that is written."""
        return self._own.marks(keys)

    def stop(self, deadline: Deadline) -> None:
        self._own.stop(deadline)

    def _delete(self, keys: list[bytes], shared: OffsetStore) -> None:
        if not keys:
            return
        try:
            shared.set(dict.fromkeys(keys)).result(self._delete_timeout_s)
        except FutureTimeout as error:
            raise DeadlineExceeded(
                f"Deleting {len(keys)} offsets from the worker's offsets topic took longer than"
                f" {self._delete_timeout_s:g} s"
            ) from error


class _Delegating:
    """An offset store that delegates everything except writes."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    def start(self, deadline: Deadline) -> None:
        self._store.start(deadline)

    def get(self, keys: Iterable[bytes], deadline: Deadline) -> dict[bytes, bytes]:
        return self._store.get(keys, deadline)

    def partitions_of(self, connector: str) -> frozenset[bytes]:
        return self._store.partitions_of(connector)

    def marks(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        return self._store.marks(keys)

    def stop(self, deadline: Deadline) -> None:
        self._store.stop(deadline)


class TransactionalOffsets(_Delegating):
    """Writes offsets in the open transaction; they are stored when it is committed.

    `store` reads committed offsets only. `send(key, value)` queues a record for the offsets topic
    with the transaction's producer. For one thread.
    """

    def __init__(
        self,
        store: OffsetStore,
        send: Callable[[bytes, bytes | None], Future[RecordMetadata]],
    ) -> None:
        super().__init__(store)
        self._send = send
        self._open: list[tuple[Future[None], Future[None]]] = []

    def set(self, values: _Values) -> Future[None]:
        """Queue these offsets. The future completes with the next `committed` or `aborted`."""
        sent = gathered(self._send, values)
        stored: Future[None] = Future()
        self._open.append((sent, stored))
        return stored

    def failure(self) -> BaseException | None:
        """Return why a record of this transaction was not sent, or None if no failure is known."""
        for sent, _ in self._open:
            if sent.done() and (error := sent.exception()) is not None:
                return error
        return None

    def committed(self) -> None:
        """Complete the futures after a commit."""
        done, self._open = self._open, []
        for _, stored in done:
            stored.set_result(None)

    def aborted(self, error: BaseException) -> None:
        """Fail the futures after an abort or a commit with unknown outcome."""
        failed, self._open = self._open, []
        for _, stored in failed:
            stored.set_exception(error)


class SingleTransactionOffsets(_Delegating):
    """Writes each set of offsets in a transaction of its own, with an exclusive transactional id.

    `open_sender` creates the sender at the first write. `timeout_s` limits claiming the id and each
    write. `set` blocks.
    """

    def __init__(
        self,
        store: OffsetStore,
        topic: str,
        open_sender: Callable[[], TransactionalSender],
        *,
        timeout_s: float,
    ) -> None:
        super().__init__(store)
        self._topic = topic
        self._open_sender = open_sender
        self._timeout_s = timeout_s
        self._sender: TransactionalSender | None = None

    def set(self, values: _Values) -> Future[None]:
        try:
            if self._sender is None:
                self._sender = self._open_sender()
                self._sender.claim(Deadline(self._timeout_s))
            self._sender.write(self._topic, list(values.items()), Deadline(self._timeout_s))
        except ConnectError as error:
            return failed_future(error)
        return done_future(None)

    def stop(self, deadline: Deadline) -> None:
        if self._sender is not None:
            self._sender.close(deadline)
        super().stop(deadline)


def _say_if_failed(written: Future[None]) -> None:
    error = written.exception()
    if error is not None:
        _log.warning(
            "Cannot write offsets to the worker's offsets topic; the connector's offsets topic"
            " has them: %s",
            error,
        )
