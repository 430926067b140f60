"""The product's client of the transaction coordinator in virtual time, and what a task gets of it.

`SimulatedClient` has the requests, the judgement of answers and the state of the product's
`TransactionCoordinator`. Its thread and its connections are replaced: a step is an event of the
world, and is tried again after retriable errors, without end.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from connect.clients.config.settings import WireSettings
from connect.clients.transactions.coordinator import ProducerIdentity, TransactionCoordinator
from connect.clients.wire.connection import WireConnection
from connect.errors import BrokerUnavailable, ConnectError, RetriableBrokerError
from connect.plugin import SourcePartition, StoredOffset
from tests.simulation.kafka import codes
from tests.simulation.kafka.coordinator import Claim, Coordinator, committed_offsets
from tests.simulation.kafka.log import ABORT, COMMIT

__all__ = ["SimulatedClient", "SimulatedTransactions"]

T = TypeVar("T")
Key = tuple[str, int]

_SETTINGS = WireSettings(bootstrap=(("target", 0),), client_id="copier")
_VERSIONS = {
    AddPartitionsToTxnRequest.API_KEY: (0, 5),
    EndTxnRequest.API_KEY: (0, 5),
    InitProducerIdRequest.API_KEY: (0, 5),
}
_MARKERS_S = (0.002, 0.05)
_RETRY_S = (0.05, 1.0)
_TROUBLE_S = 5.0
"""As the client's own thread waits before it tells of its trouble."""


class _Connection:
    api_versions = _VERSIONS

    def version_of(self, api_key: int, highest: int) -> int:
        return min(highest, _VERSIONS[api_key][1])

    def __str__(self) -> str:
        return "the simulated coordinator"


class SimulatedClient(TransactionCoordinator):
    """See the module. `on_identity(producer id, epoch)`: called before anything is written so."""

    def __init__(
        self,
        coordinator: Coordinator,
        transactional_id: str,
        timeout_s: float,
        on_identity: Callable[[tuple[int, int]], None] = lambda _: None,
    ) -> None:
        cluster = coordinator.cluster
        super().__init__(_SETTINGS, transactional_id, round(timeout_s * 1000), cluster.time)
        self._timeout_s = timeout_s
        self._simulated = coordinator
        self._cluster = cluster
        self._rng = cluster.rng
        self._on_identity = on_identity
        self._busy = False
        self._steps: deque[Callable[[], None]] = deque()

    def die(self) -> None:
        """The process is gone: nothing is answered any more, and what is open stays open."""
        self._closed = True
        self._cancellation.close()

    def close(self) -> None:
        """What is open is aborted, if the id is still ours."""
        if not self._closed:
            self.die()
            if self._open:
                self._simulated.end(self.transactional_id, _pair(self.identity), ABORT)

    # One step after the other, each tried again until there is an answer.

    def _submit(self, step: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        began = self._cluster.time.monotonic()

        def attempt() -> None:
            if self._closed:
                return
            try:
                result = step()
            except ConnectError as error:
                if error.retriable:
                    if self._cluster.time.monotonic() - began > _TROUBLE_S:
                        self.trouble = str(error)
                    self._cluster.time.after(self._pause(error), attempt)
                    return
                failure = error
                self._answer(lambda: future.set_exception(failure))
            else:
                self._answer(lambda: future.set_result(result))

        self._steps.append(lambda: self._cluster.time.after(self._delay(), attempt))
        self._next()
        return future

    def _next(self) -> None:
        if self._steps and not self._busy:
            self._busy = True
            self._steps.popleft()()

    def _pause(self, error: ConnectError) -> float:
        code = error.code if isinstance(error, RetriableBrokerError) else None
        markers = code == codes.CONCURRENT_TRANSACTIONS
        return self._rng.uniform(*(_MARKERS_S if markers else _RETRY_S))

    def _answer(self, complete: Callable[[], None]) -> None:
        def done() -> None:
            self._busy = False
            self.trouble = None
            if not self._closed:
                complete()
                self._next()

        self._cluster.time.after(self._delay(), done)

    def _delay(self) -> float:
        faults = self._simulated.faults
        delay = self._cluster.connections.delay * (1 + self._rng.random())
        if faults.slow and self._rng.random() < faults.slow:
            delay += faults.slow_s * self._rng.random()
        late_s, self._simulated.late_s = self._simulated.late_s, 0.0
        return delay + late_s

    # Requests.

    def _init(self, current: ProducerIdentity | None) -> None:
        super()._init(current)
        self._on_identity(_pair(self.identity))

    def _coordinator(self) -> WireConnection:
        return cast("WireConnection", _Connection())

    def _call(self, connection: WireConnection, request: Any) -> Any:
        faults = self._simulated.faults
        errors: Sequence[int]
        if isinstance(request, InitProducerIdRequest):
            answer, errors = self._ask_init(request), codes.INIT_PRODUCER_ID
        elif isinstance(request, AddPartitionsToTxnRequest):
            answer, errors = self._ask_add(request), codes.ADD_PARTITIONS_TO_TXN
        else:
            answer, errors = self._ask_end(request), codes.END_TXN
        if faults.refused and self._rng.random() < faults.refused:
            return answer(self._rng.choice(errors))
        answered = answer(0)
        if faults.lost and self._rng.random() < faults.lost:
            raise BrokerUnavailable("simulated: the coordinator's answer is lost")
        return answered

    def _ask_init(self, request: Any) -> Callable[[int], Any]:
        current = (request.producer_id, request.producer_epoch)

        def answer(refusal: int) -> Any:
            claim = (
                Claim(refusal)
                if refusal
                else self._simulated.init(
                    self.transactional_id, self._timeout_s, None if current[0] < 0 else current
                )
            )
            return SimpleNamespace(
                error_code=claim.code, producer_id=claim.producer, producer_epoch=claim.epoch
            )

        return answer

    def _ask_add(self, request: Any) -> Callable[[int], Any]:
        identity = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        topics = request.v3_and_below_topics
        keys = [(topic.name, number) for topic in topics for number in topic.partitions]

        def answer(refusal: int) -> Any:
            found = dict.fromkeys(keys, refusal)
            if not refusal:
                found = dict(self._simulated.add(self.transactional_id, identity, keys))
            return SimpleNamespace(
                results_by_topic_v3_and_below=[
                    SimpleNamespace(
                        name=topic,
                        results_by_partition=[
                            SimpleNamespace(partition_index=number, partition_error_code=code)
                        ],
                    )
                    for (topic, number), code in found.items()
                ]
            )

        return answer

    def _ask_end(self, request: Any) -> Callable[[int], Any]:
        kind = COMMIT if request.committed else ABORT
        identity = request.producer_id, request.producer_epoch

        def answer(refusal: int) -> Any:
            return SimpleNamespace(
                error_code=refusal or self._simulated.end(self.transactional_id, identity, kind)
            )

        return answer


def _pair(identity: ProducerIdentity) -> tuple[int, int]:
    return identity.producer_id, identity.epoch


class SimulatedTransactions:
    """The `TransferTransactions` of one run of a task. `claim` first."""

    def __init__(
        self,
        coordinator: Coordinator,
        transactional_id: str,
        offsets_topic: str,
        *,
        timeout_s: float,
        boundary_s: float | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.offsets_topic = offsets_topic
        self.timeout_s = timeout_s
        self.boundary_s = boundary_s
        self._cluster = coordinator.cluster
        self._client = SimulatedClient(coordinator, transactional_id, timeout_s)

    @property
    def trouble(self) -> str | None:
        return self._client.trouble

    @property
    def producer(self) -> tuple[int, int]:
        return _pair(self._client.identity)

    def claim(self) -> Future[None]:
        """Fence earlier runs; done when what they left open is ended."""
        return self._client.claim()

    def close(self) -> None:
        """Nothing is answered any more. What is open stays open, as after a crash."""
        self._client.die()

    def add(self, partitions: Collection[Key]) -> Future[Mapping[Key, int]]:
        return self._client.add(partitions)

    def commit(self, records: int) -> Future[Any]:
        return self._client.commit()

    def abort(self, why: str) -> Future[Any]:
        return self._client.abort()

    def confirm(self) -> Future[None]:
        raise AssertionError("the copier confirms nothing")

    def note(self, records: int, ms: float) -> None:
        raise AssertionError("the copier notes nothing")

    def offset_key(self, partition: SourcePartition) -> bytes:
        return json.dumps(dict(partition), sort_keys=True).encode()

    def offset_records(self, offsets: Sequence[StoredOffset]) -> list[tuple[bytes, bytes | None]]:
        return [(self.offset_key(p), json.dumps(offset).encode()) for p, offset in offsets]

    def notes(self, partitions: Sequence[SourcePartition]) -> list[bytes | None]:
        stored = committed_offsets(self._cluster, self.offsets_topic)
        return [stored.get(self.offset_key(p), (b"", None))[1] for p in partitions]
