"""Claiming transactional ids ends at once when whoever wanted it is being stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from connect.clients.config.settings import WireSettings
from connect.clients.transactions.fence_producers import claim_producers, was_claimed
from connect.clients.wire.cancellation import Cancellation
from connect.clock import Deadline
from connect.errors import Interrupted
from tests.support.waiting import wait_until

AMPLE_S, SOON_S = 60.0, 5.0


class Silent:
    """A broker that takes connections and answers nothing; or, closed, not even those."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._taken: list[socket.socket] = []
        self.address: tuple[str, int] = self._listening.getsockname()

    def take(self) -> None:
        self._taken.append(self._listening.accept()[0])

    def close(self) -> None:
        for each in (self._listening, *self._taken):
            each.close()


@pytest.fixture
def broker() -> Iterator[Silent]:
    with closing(Silent()) as opened:
        yield opened


@pytest.fixture
def cancellation() -> Iterator[Cancellation]:
    with closing(Cancellation()) as made:
        yield made


def claims(broker: Silent, cancellation: Cancellation) -> None:
    claim_producers(
        WireSettings(bootstrap=(broker.address,)),
        ["a", "b"],
        Deadline(AMPLE_S),
        timeout_ms=1000,
        cancellation=cancellation,
    )


def asks(broker: Silent, cancellation: Cancellation) -> None:
    settings = WireSettings(bootstrap=(broker.address,))
    was_claimed(settings, "a", Deadline(AMPLE_S), cancellation)


@pytest.mark.parametrize("work", [claims, asks])
@pytest.mark.parametrize("answers", [True, False])
def test_who_waits_for_brokers_gives_up(
    broker: Silent,
    cancellation: Cancellation,
    work: Callable[[Silent, Cancellation], None],
    answers: bool,
) -> None:
    with ThreadPoolExecutor(1) as pool:
        if not answers:
            broker.close()
        doing = pool.submit(work, broker, cancellation)
        if answers:
            broker.take()
        else:
            wait_until(doing.running, SOON_S, "the first attempt")
        cancellation.cancel()
        with pytest.raises(Interrupted):
            doing.result(SOON_S)


def test_a_cancellation_may_come_after_the_end(cancellation: Cancellation) -> None:
    cancellation.close()
    cancellation.cancel()
    assert cancellation.is_set()
