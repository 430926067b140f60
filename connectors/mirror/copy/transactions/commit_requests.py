"""Requests to commit before the transaction boundary, and their futures. Belongs to one thread."""

from __future__ import annotations

from concurrent.futures import Future

from connect.errors import ConnectError

__all__ = ["CommitRequests"]


class CommitRequests:
    """The pending requests. `everything`: the next transaction must store the source offsets of all
    partitions."""

    def __init__(self) -> None:
        self.everything = False
        self._waiting: list[Future[None]] = []
        self._in_transaction: list[Future[None]] = []

    def __bool__(self) -> bool:
        """Whether a request waits for a transaction to start or to end."""
        return bool(self._waiting)

    def add(self) -> Future[None]:
        done: Future[None] = Future()
        self._waiting.append(done)
        self.everything = True
        return done

    def covered(self) -> None:
        """Record that the transaction that is ending covers all requests."""
        self.everything = False
        self._in_transaction += self._waiting
        self._waiting = []

    def committed(self) -> None:
        """Complete the requests, because that transaction was committed."""
        done, self._in_transaction = self._in_transaction, []
        for waiting in done:
            waiting.set_result(None)

    def aborted(self) -> None:
        """Let the requests wait for the next transaction, because that one was aborted."""
        self._waiting = [*self._in_transaction, *self._waiting]
        self._in_transaction = []
        self.everything = bool(self._waiting)

    def fail(self, error: ConnectError) -> None:
        """Fail all requests, because no more transactions follow."""
        left = [*self._in_transaction, *self._waiting]
        self._in_transaction, self._waiting = [], []
        for waiting in left:
            waiting.set_exception(error)
