"""The clients that one simulated worker gives to its task, and the task's own telling of losses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from connect.clients.config.settings import WireSettings
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import Clock
from connect.plugin import StoredOffset, TaskContext
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.copy.memory import SharedMemory
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.quarantine import QuarantinedRecords
from connectors.mirror.history.recorder import CopiedPartition, TaskHistory
from connectors.mirror.offsets.map_topic_reading import MapTopic
from connectors.mirror.offsets.offset_sync_producer import OffsetSyncProducer
from connectors.mirror.source.catch_up import CatchUp
from connectors.mirror.source.task import MirrorSourceTask
from connectors.mirror.source.task_clients import TaskClients
from tests.simulation.kafka.access import AccessFaults, SimulatedAccess
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.network import Network, SimulatedPoller
from tests.simulation.mirror.internal_topics import (
    InternalTopic,
    SimulatedMapReader,
    SimulatedProducer,
)
from tests.simulation.mirror.oracle import Oracle
from tests.simulation.mirror.quarantine import QuarantineRecords, SimulatedQuarantine
from tests.simulation.mirror.session import Finding, Session
from tests.simulation.mirror.tails import SimulatedTails
from tests.simulation.mirror.timeline import Life, Timeline, WorkerClock

__all__ = ["SimulatedClients", "WatchedTask"]

_SHARED_TURN_S = 0.03
"""So long one worker waits at most where another one is to have its turn, too."""


class _Rows:
    """History rows are told to the oracle before they would be rows."""

    def add(self, flow: object, row: object) -> None:
        """Nothing reads them."""

    def close(self) -> None:
        """Nothing is open."""


class _WatchedHistory(TaskHistory):
    """Tells the oracle where partitions begin, and what was lost."""

    def __init__(
        self, oracle: Oracle, session: Session, config: SourceConfig, connector: str, clock: Clock
    ) -> None:
        super().__init__(config, connector, 0, clock, lambda *_: _Rows())
        self._oracle = oracle
        self._session = session

    def begun(self, key: TopicPartition, position: int) -> None:
        super().begun(key, position)
        self._oracle.began(self._session, key, position)

    def lost(self, partition: CopiedPartition, loss: Loss) -> None:
        super().lost(partition, loss)
        self._oracle.lost(self._session, loss)


class WatchedTask(MirrorSourceTask):
    """Tells the oracle what the target acknowledged, before it gets into the offset map."""

    def __init__(self, clients: SimulatedClients) -> None:
        super().__init__(clients)
        self._watched = clients

    def initialize(self, context: TaskContext) -> None:
        super().initialize(context)
        self._watched.cancellation = self._cancellation
        self._watched.partitions = self._copied

    def _copied(self) -> Collection[PartitionCopy]:
        return () if self._engine is None else self._engine.partitions

    def _acked(
        self, partition: PartitionCopy, runs: Sequence[tuple[int, int]], base_offset: int
    ) -> None:
        watched = self._watched
        watched.life.step()
        watched.oracle.acked(watched.session, partition.source, runs, base_offset)
        super()._acked(partition, runs, base_offset)

    def _quarantined(self, partition: PartitionCopy, aside: QuarantinedRecords) -> None:
        self._watched.oracle.put_aside(self._watched.session, aside)
        super()._quarantined(partition, aside)

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        prepared = super().prepare_commit()
        for partition, position in self._committing:
            self._watched.oracle.commits(self._watched.session, partition.source, position)
        return prepared


class _Poller(SimulatedPoller):
    """Of one worker, which may die before and after it waits."""

    def __init__(
        self, network: Network, life: Life, session: Session, shared: Callable[[], bool]
    ) -> None:
        super().__init__(network)
        self._session = session
        self._network_of = network
        self._life = life
        self._shared = shared

    def select(self, timeout: float) -> list[tuple[int, int]]:
        self._life.step()
        if self._session.failed:
            raise Finding(f"{self._session.name} goes on copying after it failed")
        ready = super().select(min(timeout, _SHARED_TURN_S) if self._shared() else timeout)
        self._life.step()
        return ready

    def wait(self, timeout: float) -> bool:
        return super().wait(min(timeout, _SHARED_TURN_S) if self._shared() else timeout)

    def cut_off(self) -> None:
        """All its sockets are closed by the system."""
        for descriptor in list(self._masks):
            each = self._network_of.sockets.get(descriptor)
            if each is not None:
                each.close()
        self._masks.clear()


class _Access(SimulatedAccess):
    """Tells whose producer ids they are."""

    def watched_by(self, oracle: Oracle, session: Session) -> None:
        self._oracle = oracle
        self._session = session

    def init_producer_id(self) -> Future[tuple[int, int]]:
        future = super().init_producer_id()

        def given(done: Future[tuple[int, int]]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._oracle.writes(done.result(), self._session)

        future.add_done_callback(given)
        return future


class _OffsetTopics:
    """`internal_topics.OffsetTopicClients` of one worker."""

    def __init__(
        self,
        timeline: Timeline,
        life: Life,
        session: Session,
        syncs: InternalTopic,
        pages: InternalTopic,
    ) -> None:
        self._timeline = timeline
        self._session = session
        self._life = life
        self._syncs = syncs
        self._pages = pages
        self.producers: list[SimulatedProducer] = []
        self.readers: list[SimulatedMapReader] = []

    def writer(self, clock: Clock) -> OffsetSyncProducer:
        made = SimulatedProducer(
            self._timeline,
            self._life,
            self._session,
            {topic.name: topic for topic in (self._syncs, self._pages)},
        )
        self.producers.append(made)
        return OffsetSyncProducer(made, self._syncs.name, self._pages.name, clock)

    def read_map(self, on_read: Callable[[MapTopic], None], before: MapTopic) -> SimulatedMapReader:
        made = SimulatedMapReader(self._timeline, self._session, self._pages, on_read, before)
        self.readers.append(made)
        return made

    def die(self) -> None:
        for producer in self.producers:
            producer.die()
        for reader in self.readers:
            reader.close()


class SimulatedClients(TaskClients):
    """Of one worker. `shared`: whether another worker is to have turns, too."""

    def __init__(
        self,
        timeline: Timeline,
        network: Network,
        clusters: Mapping[str, tuple[Cluster, AccessFaults]],
        oracle: Oracle,
        session: Session,
        life: Life,
        clock: WorkerClock,
        syncs: InternalTopic,
        pages: InternalTopic,
        shared: Callable[[], bool],
        put_aside: QuarantineRecords,
        *,
        read_committed: bool,
    ) -> None:
        self.clock = clock
        # The process's own would keep every simulated task that a crash ends.
        self.catch_up = CatchUp(clock)
        self.memory = SharedMemory()
        self._timeline = timeline
        self._put_aside = put_aside
        self._quarantines: list[SimulatedQuarantine] = []
        self._offset_topics = _OffsetTopics(timeline, life, session, syncs, pages)
        self.oracle = oracle
        self.session = session
        self.life = life
        self.cancellation: Cancellation | None = None
        self._clusters = clusters
        self._poller = _Poller(network, life, session, shared)
        self._opened: list[_Access] = []
        self._tails = SimulatedTails(
            timeline,
            clusters["source"][0],
            clusters["target"][0],
            read_committed=read_committed,
        )
        self.partitions: Callable[[], Collection[PartitionCopy]] = tuple
        """Those of the task's engine."""

    def offset_topics(self, *_: Any) -> _OffsetTopics:
        return self._offset_topics

    def open_cluster(
        self, settings: WireSettings, on_change: Callable[[], None], clock: Clock, name: str
    ) -> SimulatedAccess:
        cluster, faults = self._clusters[settings.bootstrap[0][0]]
        made = _Access(cluster, faults, settings, on_change)
        made.watched_by(self.oracle, self.session)
        self._opened.append(made)
        return made

    def loop(self) -> SelectorLoop:
        return SelectorLoop(self.clock, self._poller)

    def wake(self) -> None:
        self._poller.wake()

    def wait(self, timeout: float) -> bool:
        """Wait as the worker's engine thread does. Return whether the task is ready."""
        return self._poller.wait(timeout)

    def history(self, config: SourceConfig, connector: str, task: int) -> TaskHistory:
        return _WatchedHistory(self.oracle, self.session, config, connector, self.clock)

    def quarantine(self, *_: Any) -> SimulatedQuarantine:
        made = SimulatedQuarantine(self._timeline, self._put_aside)
        self._quarantines.append(made)
        return made

    def tails(self, *_: Any, **__: Any) -> SimulatedTails:
        return self._tails

    def retention(self, *_: Any) -> None:
        """Nobody reckons when records are deleted."""

    def fence_lanes(
        self, target: WireSettings, task_id: str, task: int, cancellation: Cancellation | None
    ) -> None:
        """No executors copied this flow."""

    def cut_off(self) -> None:
        """The process is gone."""
        for access in self._opened:
            access.close()
        self._poller.cut_off()
        self._tails.close()
        for quarantine in self._quarantines:
            quarantine.close()
        if self.cancellation is not None:
            self.cancellation.close()
        self._offset_topics.die()
