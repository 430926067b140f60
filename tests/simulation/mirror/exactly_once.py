"""What a simulated worker writes exactly once with: a client of the simulated coordinator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from connect.clients.transactions.coordinator import ProducerIdentity
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from tests.simulation.kafka.coordinator import Coordinator, SimulatedTransactions
from tests.simulation.kafka.log import ABORT
from tests.simulation.mirror.timeline import Timeline

__all__ = ["CoordinatorClient"]

_CLAIM_S = 300.0


class _Requests(SimulatedTransactions):
    """Tells whose producer ids they are, before anything is written with them."""

    on_identity: Callable[[tuple[int, int]], None]
    claimed = False

    def _init(self) -> bool | None:
        done = super()._init()
        if done:
            self.claimed = True
            self.on_identity(self.producer)
        return done


class CoordinatorClient:
    """Has the methods of a `TransactionCoordinator`."""

    def __init__(
        self,
        timeline: Timeline,
        coordinator: Coordinator,
        transactional_id: str,
        offsets_topic: str,
        timeout_s: float,
        on_identity: Callable[[tuple[int, int]], None],
    ) -> None:
        self._timeline = timeline
        self._coordinator = coordinator
        self.transactional_id = self._id = transactional_id
        self._requests = _Requests(
            coordinator, transactional_id, offsets_topic, timeout_s=timeout_s
        )
        self._requests.on_identity = on_identity
        self._closed = False
        self.trouble: str | None = None

    @property
    def identity(self) -> ProducerIdentity:
        return ProducerIdentity(*self._requests.producer)

    def claim(self) -> Future[bool]:
        """The world goes on until the id is claimed."""
        claimed = self._requests.claim()
        self._timeline.wait(claimed.done, _CLAIM_S)
        return claimed

    def add(self, partitions: Collection[TopicPartition]) -> Future[Mapping[TopicPartition, int]]:
        return self._requests.add(tuple(partitions))

    def commit(self) -> Future[None]:
        return self._requests.commit(0)

    def abort(self) -> Future[None]:
        return self._requests.abort("")

    def confirm(self) -> Future[None]:
        raise AssertionError("no executors write for this task")

    def close(self) -> None:
        """What is open is aborted, if the id is still ours."""
        if self._closed:
            return
        self.die()
        if self._requests.claimed and self._coordinator.open_members(self._id):
            with contextlib.suppress(ConnectError):
                self._coordinator.end(self._id, self._requests.producer, ABORT)

    def die(self) -> None:
        """The process is gone: what is open stays open."""
        self._closed = True
        self._requests.close()
