"""Events of the copier's parts are handled one after the other, after what posted them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.copy.context import CopyListener, LossFound
from connectors.mirror.copy.dispatcher import Dispatcher
from connectors.mirror.copy.partition.partition import PartitionCopy
from tests.unit.connectors.mirror.copy.asked_cluster import SteppedLoop


class Dispatching(SteppedLoop):
    """A dispatcher, whose owner's `lost` is `on_lost`."""

    def __init__(self) -> None:
        super().__init__(listener=CopyListener(acked=lambda *_: None, lost=self._lost))
        self.dispatcher = Dispatcher(self.context, None, None)
        self.on_lost: Callable[[int], None] = lambda _: None
        self.one = self.partition(0, 10)
        self.context.partitions[self.one.source] = self.one

    def _lost(self, partition: PartitionCopy, loss: Loss) -> None:
        self.on_lost(loss.first)

    def lose(self, first: int) -> None:
        """A part finds a loss."""
        kind, policy = LossKind.RETENTION, LossPolicy.REPORT
        loss = Loss(kind, policy, self.one.source, self.one.target, first, 9, 9, 9)
        self.context.post(LossFound(self.one, loss))


@pytest.fixture
def made() -> Iterator[Dispatching]:
    dispatching = Dispatching()
    yield dispatching
    dispatching.dispatcher.close()
    dispatching.loop.close()


def test_an_event_is_handled_after_the_callback_that_posts_it(made: Dispatching) -> None:
    told: list[str] = []
    made.on_lost = lambda first: told.append(f"lost from {first} on")

    def find() -> None:
        made.lose(0)
        made.lose(1)
        made.context.mark(made.one)
        told.append("found")

    made.loop.soon(find)
    made.loop.soon(lambda: told.append("the next callback"))
    made.turn()
    assert told == ["found", "lost from 0 on", "lost from 1 on", "the next callback"]
    assert not made.context.changed


def test_an_event_is_not_handled_in_the_middle_of_another(made: Dispatching) -> None:
    """As when an event closes a connection, whose lost batches are handled at once."""
    told: list[str] = []

    def lost(first: int) -> None:
        told.append(f"{first} begins")
        if first == 0:
            made.lose(1)
            made.dispatcher.drain()
        told.append(f"{first} ends")

    made.on_lost = lost
    made.lose(0)
    made.dispatcher.drain()
    assert told == ["0 begins", "0 ends", "1 begins", "1 ends"]
