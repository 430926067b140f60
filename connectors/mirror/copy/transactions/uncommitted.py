"""Holds the events that the owner of the engine gets, in order, once the open transaction has
ended."""

from __future__ import annotations

from connectors.mirror.copy.context import CopyContext, LossFound, Settled

__all__ = ["Uncommitted"]


class Uncommitted:
    """Acknowledged batches of the open transaction, and losses found among them."""

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
