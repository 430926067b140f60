"""Source offsets of a connector that has an offsets topic of its own (`offsets.storage.topic`).

What Kafka Connect documents (KIP-618): the connector's topic comes first, the worker's is read for
what the connector's does not have, and written, too, so that one can go back. (Java 4.3.1 looks at
the worker's topic and then takes the connector's answer even where that is "none", so a connector
that gets a topic of its own begins anew there; here it goes on.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from connect.clients.transactions.atomic_writer import TransactionalSender
from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded
from connect.plugin import RecordMetadata
from connect.storage.offset_store import OffsetStore, gathered

__all__ = ["ConnectorOffsetStore", "SingleTransactionOffsets", "TransactionalOffsets"]

_log = logging.getLogger(__name__)

_Values = Mapping[bytes, bytes | None]


class ConnectorOffsetStore:
    """An `OffsetStore` of two. It starts and stops `own`; `shared`, the worker's, is not its own.

    `shared` None: `own` keeps everything, as when both would be the same topic.
    `delete_timeout_s`: how long deleting from `shared` may take; `set` waits for that.
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
        # Also when nothing is missing: it reads to the end what `partitions_of` tells.
        missing = [key for key in wanted if key not in found]
        return {**self._shared.get(missing, deadline), **found}

    def set(self, values: _Values) -> Future[None]:
        """Deletions are in `shared` before anything is in `own`: otherwise what was deleted could
        be found there again. Of the rest, `shared` gets what `own` has stored, as far as it can."""
        if self._shared is None:
            return self._own.set(values)
        shared = self._shared
        try:
            self._delete([key for key, value in values.items() if value is None], shared)
        except ConnectError as error:
            refused: Future[None] = Future()
            refused.set_exception(error)
            return refused
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
        """The marks of `own`, which has every key that is written."""
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
    """A store that delegates everything but writing to another store."""

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
    """Writes offsets in whatever transaction is open: they are stored when that is committed.

    `store` reads, committed offsets only. `send(key, value)` queues a record for the offsets topic
    with the producer of the transaction. For one thread.
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
        """The future completes with `committed` or `aborted`, which must follow."""
        sent = gathered(self._send, values)
        stored: Future[None] = Future()
        self._open.append((sent, stored))
        return stored

    def failure(self) -> BaseException | None:
        """Why something of this transaction was not sent; None as far as it is known to be."""
        for sent, _ in self._open:
            if sent.done() and (error := sent.exception()) is not None:
                return error
        return None

    def committed(self) -> None:
        """The transaction was committed."""
        done, self._open = self._open, []
        for _, stored in done:
            stored.set_result(None)

    def aborted(self, error: BaseException) -> None:
        """The transaction was not committed, or nobody knows."""
        failed, self._open = self._open, []
        for _, stored in failed:
            stored.set_exception(error)


class SingleTransactionOffsets(_Delegating):
    """Writes each set of offsets in a transaction of its own, as the only producer of the id.

    `open_sender` makes the sender, at the first write; `timeout_s` bounds claiming the id, and
    writing. `set` blocks meanwhile.
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
        done: Future[None] = Future()
        try:
            if self._sender is None:
                self._sender = self._open_sender()
                self._sender.claim(Deadline(self._timeout_s))
            self._sender.write(self._topic, list(values.items()), Deadline(self._timeout_s))
        except ConnectError as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

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
