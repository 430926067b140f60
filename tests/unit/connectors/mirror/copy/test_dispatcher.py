"""Events of the copier's parts are handled one after the other, after what posted them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.copy.batches.outgoing import Failure
from connectors.mirror.copy.context import CopyListener, Left, LossFound
from connectors.mirror.copy.dispatcher import Dispatcher
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.transactions.manager import TransactionManager
from tests.support.copier.outgoing import outgoing
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


@pytest.mark.parametrize("maybe", [True, False])
def test_one_that_leaves_with_a_batch_that_may_be_there_aborts_the_transaction(
    made: Dispatching, maybe: bool
) -> None:
    """Its source offset would not be in the transaction. It waits for its next attempt."""
    aborted: list[PartitionCopy] = []
    transactions = SimpleNamespace(
        abort_for=lambda partition, _: aborted.append(partition),
        close=lambda: None,
        equip=lambda _: None,
    )
    made.dispatcher.transactions = cast("TransactionManager", transactions)
    data = bytearray(b"x")
    buffer = FetchBuffer(made.context.budget, data)
    batch = outgoing(data, 10, 1, buffer)
    made.one.started()
    made.one.enqueue(batch, 10)
    made.one.take_next()
    made.one.failed(batch, Failure.RETRY, "the connection broke", maybe=maybe)
    made.one.requeue()
    made.one.delay()
    made.one.leaving = True
    made.context.post(Left(made.one))
    made.dispatcher.drain()
    assert aborted == ([made.one] if maybe else [])
    assert made.dispatcher.departed == [made.one]


def test_topic_ids_of_both_sides_are_asked_for_though_nothing_is_copied(made: Dispatching) -> None:
    """A topic may be created again between two fetches that both succeed."""
    made.one.source_node = made.one.target_node = 1
    for _ in range(30):
        made.turn(1.0)
    assert (made.source.refreshes, made.target.refreshes) == (1, 1)
