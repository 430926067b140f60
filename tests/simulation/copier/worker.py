"""The copier's owner: starts an engine, stores its offsets, stops or kills it, starts the next."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from connect.clients.config.settings import FetchSettings, ProduceSettings, WireSettings
from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import Clock, Deadline
from connectors.mirror.config.losses import Loss
from connectors.mirror.copy.context import CopyListener, EngineEnvironment
from connectors.mirror.copy.engine import CopyEngine
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.quarantine import Quarantine, QuarantinedRecords
from connectors.mirror.copy.settings import EngineSettings, TransactionPlan
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity, noted_facts
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from tests.simulation.copier.plan import Plan
from tests.simulation.kafka.access import SimulatedAccess
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.coordinator import Coordinator, committed_offsets
from tests.simulation.kafka.network import Network, SimulatedPoller
from tests.simulation.kafka.transactions import SimulatedTransactions

__all__ = ["OFFSETS", "SOURCE", "TARGET", "Stored", "Worker", "WorkerEvents"]

SOURCE, TARGET, OFFSETS = "topic", "copy", "offsets"
_TRANSACTIONAL_ID = "task-0"
_TRANSACTION_TIMEOUT_S = 12.0

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored position, in which life of the topic, and what was known of the logs then. `cuts`:
    how often the source's log had been cut off by then; -1: not known."""

    position: int
    life: int
    facts: LogIdentity | None
    cuts: int = 0


@dataclass(frozen=True, slots=True)
class WorkerEvents:
    """What the world hears of. `life(partition)`: the topic's life that the copier knows of;
    `cuts(partition)`: how often the log was cut off, as far as the copier knows; `looked`: the
    source has answered the copier where an epoch of a log ends; `loss_found`: before it is told."""

    acked: Callable[[PartitionCopy, Sequence[OffsetRun], int], None]
    lost: Callable[[PartitionCopy, Loss], None]
    quarantined: Callable[[PartitionCopy, QuarantinedRecords], None]
    begins: Callable[[Key, Stored | None], None]
    life: Callable[[Key], int]
    cuts: Callable[[Key], int]
    looked: Callable[[Key], None]
    loss_found: Callable[[Key], None]


class _Metrics(PartitionMetrics):
    """Hears of a loss when it is found; under exactly-once it is told with a commit."""

    def __init__(self, key: Key, clock: Clock, on_loss: Callable[[Key], None]) -> None:
        super().__init__("source", "target", TARGET, key[1], clock=clock)
        self._key = key
        self._on_loss = on_loss

    def lost(self, records: int) -> None:
        super().lost(records)
        self._on_loss(self._key)


class Worker:
    """See the module. `engine` is None while none runs."""

    def __init__(
        self,
        plan: Plan,
        network: Network,
        source: Cluster,
        target: Cluster,
        coordinator: Coordinator | None,
        quarantine: Quarantine | None,
        events: WorkerEvents,
    ) -> None:
        self._plan = plan
        self._network = network
        self._time = network.time
        self._rng = network.rng
        self._source = source
        self._target = target
        self._coordinator = coordinator
        self._quarantine = quarantine
        self._events = events
        self._accesses: list[SimulatedAccess] = []
        self._control: SimulatedTransactions | None = None
        self.engine: CopyEngine | None = None
        self.losses = plan.losses
        """The user's loss policies, from the next start on."""
        self.stored: dict[Key, Stored] = {}
        self.stored_before: dict[Key, Stored] = {}
        self.assigned: set[Key] = {(SOURCE, n) for n in range(plan.partitions)}
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._left: list[PartitionCopy] = []
        if plan.stored_at_first and coordinator is None:
            self.stored = {key: Stored(0, 0, None) for key in self.assigned}

    @property
    def exactly_once(self) -> bool:
        return self._coordinator is not None

    # Its life.

    def start(self) -> None:
        """Begin from what is stored."""
        plan = None
        if self._coordinator is not None:
            self._control = SimulatedTransactions(
                self._coordinator,
                _TRANSACTIONAL_ID,
                OFFSETS,
                timeout_s=_TRANSACTION_TIMEOUT_S,
                boundary_s=self._plan.boundary_s,
            )
            claimed = self._control.claim()
            while not claimed.done():
                self._time.run_next()
            self._read_offsets()
            plan = TransactionPlan(self._control, source_partition)
        loop = SelectorLoop(self._time, SimulatedPoller(self._network))
        self.engine = CopyEngine(
            self._settings(),
            CopyListener(
                acked=self._events.acked,
                lost=self._events.lost,
                quarantined=self._events.quarantined,
                begun=self._begun,
            ),
            EngineEnvironment(self._time, self._open_cluster, loop),
            transactions=plan,
            quarantine=self._quarantine,
        )
        self._add(self.engine, sorted(self.assigned))

    def _open_cluster(
        self, settings: WireSettings, on_change: Callable[[], None], clock: Clock, name: str
    ) -> SimulatedAccess:
        from_source = settings.bootstrap[0][0] == "source"
        access = SimulatedAccess(
            self._source if from_source else self._target,
            (self._plan.source if from_source else self._plan.target).access,
            settings,
            on_change,
            self._events.looked if from_source else None,
        )
        self._accesses.append(access)
        return access

    def _settings(self) -> EngineSettings:
        plan = self._plan

        def wire(host: str) -> WireSettings:
            return WireSettings(
                bootstrap=((host, 0),),
                client_id="copier",
                request_timeout_ms=plan.request_timeout_ms,
                metadata_max_age_ms=plan.metadata_max_age_ms,
            )

        return EngineSettings(
            source=wire("source"),
            target=wire("target"),
            fetch=FetchSettings(
                isolation_level=1 if plan.read_committed else 0,
                max_partition_fetch_bytes=plan.partition_fetch_bytes,
                fetch_max_wait_ms=plan.fetch_wait_ms,
            ),
            produce=ProduceSettings(
                max_request_size=plan.max_request_size,
                request_timeout_ms=plan.request_timeout_ms,
            ),
            options=plan.options,
            buffer_bytes=plan.buffer_bytes,
            losses=self.losses,
        )

    def _read_offsets(self) -> None:
        found = committed_offsets(self._target, OFFSETS)
        control = self._control
        assert control is not None
        self.stored = {}
        for key in self.assigned:
            value, note = found.get(control.offset_key(source_partition(key)), (None, None))
            if value is not None:
                position = json.loads(value)["offset"] + 1
                facts = noted_facts(note, position)
                known = self.stored_before.get(key)
                if known is None or known.position != position:
                    life, cuts = self._events.life(key), self._events.cuts(key)
                    if facts is not None and facts.source_topic_id is not None:
                        # The copier may have heard of another topic since this was committed.
                        life = self._source.ids[SOURCE].index(facts.source_topic_id)
                    known = Stored(position, life, facts, cuts)
                self.stored[key] = self.stored_before[key] = known

    def _add(self, engine: CopyEngine, keys: Sequence[Key]) -> None:
        self._left += engine.take_departed()
        back = {p.source: p for p in self._left if p.source in keys and p.unstored}
        self._left = [p for p in self._left if p.source not in keys]
        for key in keys:
            stored = self.stored.get(key)
            position = None if stored is None else stored.position
            if key in back:
                position = back[key].acked_position
                facts = back[key].facts(position)
                stored = Stored(position, self._events.life(key), facts, self._events.cuts(key))
            self._events.begins(key, stored)
            metrics = _Metrics(key, self._time, self._events.loss_found)
            learns = position is not None or self._plan.learns
            added = engine.add(key, (TARGET, key[1]), position, metrics, learns=learns)
            if key in back:
                added.succeed(back[key])
                self.commit_soon()
            if key in back:
                _tell_known(key, stored, engine)  # as the task does: it need not ask
            elif learns:
                self._after_a_while(engine, partial(_tell_known, key, stored))
        engine.watch()

    def _begun(self, partition: PartitionCopy) -> None:
        engine = self.engine
        if engine is not None:
            self._after_a_while(engine, lambda e: e.let_copy([partition.source]))

    def _after_a_while(self, engine: CopyEngine, act: Callable[[CopyEngine], None]) -> None:
        """On the engine's thread, some time later, as when somebody else was asked."""
        wait = self._rng.choice((0.0, 0.05, 0.5))
        self._later.append((self._time.monotonic() + wait, lambda: act(engine)))

    def commit_soon(self) -> None:
        """Store soon, as the task asks for where a loss moved a partition back."""
        if self.engine is not None and not self.exactly_once:
            self._after_a_while(self.engine, lambda _: self.store())

    def step(self, timeout: float) -> None:
        """One step of the engine. Raises what it raises."""
        engine = self.engine
        assert engine is not None
        if self._later:
            now = self._time.monotonic()
            due = [act for at, act in self._later if at <= now]
            self._later = [each for each in self._later if each[0] > now]
            for act in due:
                act()
            timeout = min(timeout, 0.05)
        engine.step(timeout)

    def kill(self) -> None:
        """The process dies: nothing is told to anybody, connections break."""
        self._end()
        for socket in list(self._network.sockets.values()):
            socket.close()

    def close(self) -> None:
        """Close the engine as its owner does when it stops."""
        engine = self.engine
        self._end()
        if engine is not None:
            engine.close()

    def _end(self) -> None:
        self.engine = None
        self._later = []
        self._left = []
        for access in self._accesses:
            access.close()
        self._accesses = []
        if self._control is not None:
            self._control.close()

    def stop(self, seconds: float) -> bool:
        """Drain, store, close. Whether everything was answered in time."""
        engine = self.engine
        assert engine is not None
        drained = engine.drain(Deadline(seconds, self._time))
        if not self.exactly_once:
            self.store()
        self.close()
        return drained

    # Offsets.

    def store(self) -> None:
        """Store what is acknowledged, as the task does at least once."""
        engine = self.engine
        assert engine is not None
        self._left += engine.take_departed()
        left, self._left = self._left, []
        for partition in (*left, *engine.partitions):
            if partition.unstored:
                position = partition.acked_position
                key = partition.source
                life, cuts = self._events.life(key), self._events.cuts(key)
                partition.storing(position)
                facts = partition.facts(position) if self._plan.keeps_facts else None
                self.stored[key] = Stored(position, life, facts, cuts)
                engine.stored(partition, position)

    # Partitions that come and go.

    def take_away(self, key: Key) -> None:
        engine = self.engine
        if engine is not None:
            self.assigned.discard(key)
            engine.remove(key)
            engine.watch()

    def give_back(self, key: Key) -> None:
        """As a rebalance does: it goes on, or begins at its last position."""
        engine = self.engine
        if engine is None:
            return
        self.assigned.add(key)
        if engine.keep(key):
            engine.watch()
        else:
            self._add(engine, [key])


def _tell_known(key: Key, stored: Stored | None, engine: CopyEngine) -> None:
    """What was asked of others when the partition was added is known now."""
    if stored is None:
        engine.begin(key, None, None)
    else:
        engine.learn(key, stored.facts)


def source_partition(key: Key) -> dict[str, str | int]:
    """As the offsets topic names it."""
    return {"topic": key[0], "partition": key[1]}
