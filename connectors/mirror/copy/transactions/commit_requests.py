"""Those who asked for a commit, whatever the boundary, and wait for it. Belongs to one thread."""

from __future__ import annotations

from concurrent.futures import Future

from connect.errors import ConnectError

__all__ = ["CommitRequests"]


class CommitRequests:
    """`everything`: the next transaction is to have the source offsets of all partitions."""

    def __init__(self) -> None:
        self.everything = False
        self._waiting: list[Future[None]] = []
        self._in_transaction: list[Future[None]] = []

    def __bool__(self) -> bool:
        """Whether somebody waits for a transaction that has not ended yet to be begun or ended."""
        return bool(self._waiting)

    def add(self) -> Future[None]:
        done: Future[None] = Future()
        self._waiting.append(done)
        self.everything = True
        return done

    def covered(self) -> None:
        """The transaction that is ending has all that was asked for."""
        self.everything = False
        self._in_transaction += self._waiting
        self._waiting = []

    def committed(self) -> None:
        """That transaction is committed."""
        done, self._in_transaction = self._in_transaction, []
        for waiting in done:
            waiting.set_result(None)

    def aborted(self) -> None:
        """It is not: they wait for the next."""
        self._waiting = [*self._in_transaction, *self._waiting]
        self._in_transaction = []
        self.everything = bool(self._waiting)

    def fail(self, error: ConnectError) -> None:
        """There will be no more."""
        left = [*self._in_transaction, *self._waiting]
        self._in_transaction, self._waiting = [], []
        for waiting in left:
            waiting.set_exception(error)
