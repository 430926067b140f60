"""What waits for the end of a transaction: events for the engine's owner, and requests to commit.
Belongs to one thread."""

from __future__ import annotations

from concurrent.futures import Future

from connect.futures import CommitRequests
from connectors.mirror.copy.context import CopyContext, LossFound, Settled

__all__ = ["TransactionRequests", "Uncommitted"]


class Uncommitted:
    """Acknowledged batches of the open transaction, and losses found among them. The owner gets
    them, in order, once it has ended."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._held: list[Settled | LossFound] = []

    def add(self, each: Settled | LossFound) -> None:
        self._held.append(each)

    @property
    def records(self) -> int:
        return sum(each.records for each in self._held if isinstance(each, Settled))

    def pass_on(self, *, committed: bool) -> None:
        """Pass everything on; without the batches if the transaction was aborted."""
        held, self._held = self._held, []
        for each in held:
            if isinstance(each, LossFound):
                self._context.listener.lost(*each)
            elif committed:
                self._context.settle(each)


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
