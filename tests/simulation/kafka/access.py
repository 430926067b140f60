"""A `ClusterAccess` to a simulated cluster: metadata that may be late or old, and its questions.

Metadata passes through `cluster_snapshot.advance`, as it does for a real link. Connecting, producer
ids, offsets and leader epochs are answered after a delay, or fail as the cluster's state says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, TypeVar, cast

from connect.clients.cluster.list_offsets import EARLIEST, OffsetResult
from connect.clients.cluster.metadata import EMPTY_SNAPSHOT, ClusterSnapshot, advance
from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.wire.connection import WireConnection
from connect.clock import Clock
from connect.errors import BrokerUnavailable, ConnectError
from connect.protocol.fetch_by_id import FETCH_BY_ID_VERSION
from connect.protocol.messages import FETCH_API, FETCH_VERSION, PRODUCE_API, PRODUCE_VERSION
from tests.simulation.kafka import codes
from tests.simulation.kafka.cluster import Cluster, TopicView
from tests.simulation.kafka.partition import NO_LEADER, SimulatedPartition

__all__ = ["AccessFaults", "SimulatedAccess"]

T = TypeVar("T")
Key = tuple[str, int]

UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
_REFRESH_PAUSE_S = 0.1
_UNSETTLED_MOST_S = 5.0
_CONNECT_BACKOFF_MOST_S = 1.0


@dataclass(slots=True)
class AccessFaults:
    """Probabilities of what befalls metadata, connecting and questions."""

    stale: float = 0.0
    """Metadata is what it was up to a few changes ago."""
    stale_s: float = 3.0
    """No change is hidden for longer."""
    unavailable: float = 0.0
    """Nobody answers the request for metadata."""
    connect: float = 0.0
    """A connection is refused."""
    question: float = 0.0
    """A question fails with a retriable error."""
    without_topic: float = 0.0
    """Metadata has a retriable error in the place of a topic."""
    without_leader: float = 0.0
    """Metadata has a retriable error in the place of a partition's leader."""


class SimulatedAccess:
    """See the module. Use `SimulatedAccess.opener` as a copier's `open_cluster`."""

    def __init__(
        self,
        cluster: Cluster,
        faults: AccessFaults,
        settings: WireSettings,
        on_change: Callable[[], None],
        on_epoch_end: Callable[[Key], None] | None = None,
    ) -> None:
        """`on_epoch_end(partition)`: it was answered where an epoch of the log ends."""
        self._on_epoch_end = on_epoch_end or (lambda _: None)
        self._cluster = cluster
        self._faults = faults
        self._settings = settings
        self._on_change = on_change
        self._time = cluster.time
        self._rng = cluster.rng
        self._watched: frozenset[str] = frozenset()
        self._wanted: set[str] = set()
        self._refreshing = False
        self._not_before = 0.0
        self._unsettled_s = _REFRESH_PAUSE_S
        self._failures: dict[int, int] = {}
        self._closed = False
        self.snapshot: ClusterSnapshot = EMPTY_SNAPSHOT
        self.failure: ConnectError | None = None
        self._request()
        self._time.after(settings.metadata_max_age_ms / 1000, self._refresh_everything)

    @classmethod
    def opener(
        cls, clusters: Mapping[str, tuple[Cluster, AccessFaults]]
    ) -> Callable[[WireSettings, Callable[[], None], Clock, str], SimulatedAccess]:
        """An `OpenCluster`; the key of a cluster is the first bootstrap host of its settings."""

        def open_cluster(
            settings: WireSettings, on_change: Callable[[], None], clock: Clock, name: str
        ) -> SimulatedAccess:
            cluster, faults = clusters[settings.bootstrap[0][0]]
            return cls(cluster, faults, settings, on_change)

        return open_cluster

    # Metadata.

    def watch_topics(self, names: Collection[str]) -> None:
        added = frozenset(names) - self._watched
        self._watched = frozenset(names)
        if added:
            self._wanted |= added
            self._request()

    def request_refresh(self, topics: Iterable[str] | None = None) -> None:
        self._wanted |= self._watched if topics is None else self._watched.intersection(topics)
        self._request()

    def _refresh_everything(self) -> None:
        if not self._closed:
            self.request_refresh()
            self._time.after(self._settings.metadata_max_age_ms / 1000, self._refresh_everything)

    def _request(self) -> None:
        if not self._refreshing and not self._closed:
            self._refreshing = True
            wait = max(0.0, self._not_before - self._time.monotonic())
            self._time.after(wait + self._delay(), self._refresh)

    def _delay(self) -> float:
        return self._cluster.connections.delay * 2 * (1 + self._rng.random())

    def _refresh(self) -> None:
        self._refreshing = False
        if self._closed:
            return
        self._not_before = self._time.monotonic() + _REFRESH_PAUSE_S * (0.8 + self._rng.random())
        unavailable = self._rng.random() < self._faults.unavailable
        if unavailable or not self._cluster.nodes_up:
            self.failure = BrokerUnavailable(f"{self._cluster.name}: no broker answers")
            self._request()
            self._on_change()
            return
        self.failure = None
        asked = frozenset(self._wanted) & self._watched
        self._wanted.clear()
        self.snapshot = advance(self.snapshot, self._response(asked), self._watched, asked)
        self._ask_again_where_unsettled()
        self._on_change()

    def _ask_again_where_unsettled(self) -> None:
        snapshot = self.snapshot
        unsettled = set(snapshot.errors) | {
            key[0] for key in snapshot.partition_errors if key not in snapshot.leaders
        }
        if not unsettled:
            self._unsettled_s = _REFRESH_PAUSE_S
            return
        self._unsettled_s = min(2 * self._unsettled_s, _UNSETTLED_MOST_S)
        self._time.after(self._unsettled_s, lambda: self.request_refresh(unsettled))

    def _view(self) -> dict[str, TopicView]:
        views = self._cluster.views
        now = self._time.monotonic()
        before = self._cluster.view_before
        if before is not None and now < self._cluster.old_until and self._rng.random() < 0.5:
            return before[1]
        index = len(views) - 1
        while index and self._rng.random() < self._faults.stale:
            if views[index][0] < now - self._faults.stale_s:
                break
            index -= 1
        return views[index][1]

    def _response(self, asked: Iterable[str]) -> Any:
        view = self._view()
        brokers = [
            SimpleNamespace(node_id=n, host=self._cluster.name, port=n, rack=None)
            for n in self._cluster.nodes_up
        ]
        return SimpleNamespace(
            cluster_id=self._cluster.name,
            controller_id=brokers[0].node_id,
            brokers=brokers,
            topics=[self._topic(name, view.get(name)) for name in sorted(asked)],
        )

    def _topic(self, name: str, view: TopicView | None) -> Any:
        rng, faults = self._rng, self._faults
        if view is None:
            return SimpleNamespace(name=name, error_code=UNKNOWN_TOPIC_OR_PARTITION)
        if faults.without_topic and rng.random() < faults.without_topic:
            return SimpleNamespace(name=name, error_code=rng.choice(codes.METADATA_OF_TOPICS))
        partitions = []
        for number, (leader, epoch) in enumerate(view.leaders):
            error = LEADER_NOT_AVAILABLE if leader == NO_LEADER else 0
            if faults.without_leader and rng.random() < faults.without_leader:
                leader, error = NO_LEADER, rng.choice(codes.METADATA_OF_PARTITIONS)
            partitions.append(
                SimpleNamespace(
                    partition_index=number, leader_id=leader, leader_epoch=epoch, error_code=error
                )
            )
        return SimpleNamespace(name=name, error_code=0, topic_id=view.id, partitions=partitions)

    # Connections.

    def connect(self, node_id: int) -> Future[WireConnection]:
        cluster, rng = self._cluster, self._rng
        backoff = 0.0
        if self._failures.get(node_id):
            tries = min(self._failures[node_id], 6)
            backoff = min(_CONNECT_BACKOFF_MOST_S, 0.05 * 2**tries) * rng.random()

        def connected() -> WireConnection:
            broker = cluster.brokers.get(node_id)
            refused = rng.random() < self._faults.connect
            if broker is None or not broker.up or refused:
                self._failures[node_id] = self._failures.get(node_id, 0) + 1
                self.request_refresh()
                raise BrokerUnavailable(f"{cluster.name}:{node_id}: connection refused")
            self._failures.pop(node_id, None)
            made = cluster.network.open(broker, cluster.connections)
            broker.connections[made.connection] = None
            connection = WireConnection(cast("Any", made), cluster.name, node_id, "simulated")
            newest = FETCH_BY_ID_VERSION if cluster.fetches_by_id else FETCH_VERSION
            connection.api_versions = {PRODUCE_API: (3, PRODUCE_VERSION), FETCH_API: (4, newest)}
            return connection

        return self._later(connected, backoff + 2 * self._delay())

    # Questions.

    def init_producer_id(self) -> Future[tuple[int, int]]:
        def answer() -> tuple[int, int]:
            self._check_question()
            return self._cluster.new_producer_id(), 0

        return self._later(answer, self._delay())

    def list_offsets(
        self,
        partitions: Iterable[Key],
        timestamp: int,
        isolation: Literal[0, 1] = 0,
        timeout_s: float | None = None,
    ) -> Future[Mapping[Key, OffsetResult]]:
        keys = sorted(partitions)

        def offset(partition: SimulatedPartition) -> int:
            if timestamp == EARLIEST:
                return partition.log.start
            return partition.log.stable if isolation else partition.log.high

        return self._ask(keys, offset, codes.LIST_OFFSETS)

    def epoch_ends(
        self, epochs: Mapping[Key, int], timeout_s: float
    ) -> Future[Mapping[Key, OffsetResult]]:
        wanted = dict(epochs)

        def end(partition: SimulatedPartition) -> int:
            self._on_epoch_end(partition.key)
            return partition.log.epoch_end(wanted[partition.key])[1]

        return self._ask(wanted, end, codes.OFFSET_FOR_LEADER_EPOCH)

    def _ask(
        self,
        keys: Collection[Key],
        answer: Callable[[SimulatedPartition], int],
        errors: Sequence[int],
    ) -> Future[Mapping[Key, OffsetResult]]:
        def answers() -> dict[Key, OffsetResult]:
            return {key: self._answer(key, answer, errors) for key in keys}

        return self._later(answers, self._delay())

    def _answer(
        self, key: Key, answer: Callable[[SimulatedPartition], int], errors: Sequence[int]
    ) -> OffsetResult:
        partition = self._cluster.find(key)
        if partition is None:
            return error_from_code(UNKNOWN_TOPIC_OR_PARTITION, f"Asking for {key}")
        if partition.leader == NO_LEADER:
            return error_from_code(LEADER_NOT_AVAILABLE, f"Asking for {key}")
        if self._rng.random() < self._faults.question:
            return error_from_code(self._rng.choice(errors), f"Asking for {key}")
        return answer(partition)

    def _check_question(self) -> None:
        if not self._cluster.nodes_up:
            raise BrokerUnavailable(f"{self._cluster.name} does not answer")
        if self._rng.random() < self._faults.question:
            raise error_from_code(self._rng.choice(codes.INIT_PRODUCER_ID), "Asking for a producer")

    def _later(self, work: Callable[[], T], seconds: float) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            if self._closed:
                future.cancel()
                return
            try:
                result = work()
            except ConnectError as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._time.after(seconds, run)
        return future

    def close(self) -> None:
        self._closed = True
