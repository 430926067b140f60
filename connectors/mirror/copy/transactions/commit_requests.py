"""Requests to commit before the transaction boundary, and their futures. Belongs to one thread."""

from __future__ import annotations

from concurrent.futures import Future

from connect.futures import CommitRequests

__all__ = ["TransactionRequests"]


class TransactionRequests(CommitRequests):
    """The pending requests. `everything`: the next transaction must store the source offsets of all
    partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.everything = False

    def add(self) -> Future[None]:
        self.everything = True
        return super().add()

    def begin(self) -> None:
        super().begin()
        self.everything = False

    def repeat(self) -> None:
        super().repeat()
        self.everything = bool(self)
