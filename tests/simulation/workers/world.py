"""One run: a group of workers under faults, then healed, then looked at."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator

from connect.runtime.states import InstanceId, State, TargetState
from connect.storage.config_state import NO_OFFSET
from tests.simulation.outcome import Outcome
from tests.simulation.workers.clients import Clients
from tests.simulation.workers.engine import Engine, Process, Stuck
from tests.simulation.workers.group import GroupState, SimCoordinator
from tests.simulation.workers.herder import Configs, Kafka, Node, SimHerder
from tests.simulation.workers.ledger import Broken, Ledger
from tests.simulation.workers.member import Timeouts
from tests.simulation.workers.topics import Faults, SimTopic

__all__ = ["World"]

_MOST_EVENTS = 60_000
_STEADY_S = 45.0
_BYTES = "ByteArrayConverter"


class World:
    """Everything of one seed. `run` once, then `close`."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.engine = engine = Engine(seed, _MOST_EVENTS)
        random = self.random = engine.random
        self.faults = Faults()
        self.ledger = Ledger(engine)
        self.ledger.knows_until = self._knows_until
        self.ledger.generation = self._generation
        self.kafka = Kafka(
            engine,
            self.faults,
            SimCoordinator(engine),
            SimTopic(engine, "configs", self.faults),
            SimTopic(engine, "statuses", self.faults),
            self.ledger,
        )
        self.kafka.configs.on_append = self.ledger.appended
        self.connectors = tuple("abc"[: random.randint(1, 3)])
        self.clients = Clients(self.kafka, self.connectors)
        self.max_delay_s = random.choice((0, 0, 5, 30))
        once = random.choice(("disabled", "disabled", "enabled"))
        protocol = random.choice(("sessioned", "sessioned", "compatible", "eager"))
        self.once = once == "enabled"
        self._gives_at_once = self.max_delay_s == 0 or (protocol == "eager" and not self.once)
        """Whether the group gives the work of who leaves to others at once."""
        self.props = {
            "bootstrap.servers": "kafka:1",
            "group.id": "g",
            "config.storage.topic": "configs",
            "offset.storage.topic": "offsets",
            "status.storage.topic": "statuses",
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            "header.converter": _BYTES,
            "scheduled.rebalance.max.delay.ms": str(self.max_delay_s * 1000),
            "connect.protocol": "sessioned" if self.once else protocol,
            "exactly.once.source.support": once,
            "inter.worker.key.ttl.ms": random.choice(("3600000", "30000")),
            "worker.unsync.backoff.ms": "5000",
        }
        self._configs = Configs.from_properties(self.props)
        engine.note(
            f"seed {seed}: {self.props['connect.protocol']}, exactly once {once},"
            f" delay {self.max_delay_s} s, connectors {''.join(self.connectors)}"
        )
        self.slots = [f"w{number}" for number in range(random.randint(2, 4))]
        self.java = {slot for slot in self.slots if random.random() < 0.2}
        """Workers that lead as Java's do."""
        self.nodes: dict[str, Node] = {}
        self._wanted = {name for name in self.connectors if random.random() < 0.7}
        """Connectors that there are to be in the end, whatever became of them."""
        self._checked: dict[Process, object] = {}
        self._nodes: dict[Process, Node] = {}
        """All that there were, by process."""
        engine.after_event = self._look

    # The run.

    def run(self) -> Outcome:
        finding: str | None = None
        try:
            for slot in self.slots:
                self.engine.at(self.random.uniform(0.0, 3.0), lambda slot=slot: self._start(slot))  # type: ignore[misc]
            self.engine.run_until(self.random.uniform(1.0, 12.0))
            for name in self.connectors:
                self.clients.ask(self.clients.put(name, self.clients.config(name)))
            self._suffer(self.random.uniform(40.0, 160.0))
            self._heal()
            self._converge("after the faults")
            self._stay()
            self._restart_once()
        except Broken as broken:
            finding = str(broken)
        except Stuck as stuck:
            finding = str(stuck)
        except RecursionError:
            finding = "waits are nested too deep"
        except Exception as error:  # noqa: BLE001 - an exception inside is a finding, too
            trace = "".join(traceback.format_exception(error))
            finding = f"an exception: {error!r}\n{trace}"
        history = self.engine.history if finding is not None else ()
        return Outcome("workers", self.seed, finding, history, self.engine.events)

    def close(self) -> None:
        for node in self._nodes.values():
            node.close()

    def _start(self, slot: str) -> None:
        node = self.nodes.get(slot)
        if node is not None and node.process.alive:
            return
        self.nodes[slot] = new = Node(self.kafka, slot, self._configs, java=slot in self.java)
        self._nodes[new.process] = new

    # Faults.

    def _suffer(self, seconds: float) -> None:
        engine, random = self.engine, self.random
        end = engine.now + seconds
        self.faults.lost_ack = random.choice((0.0, 0.0, 0.02, 0.1))
        self.faults.crash_in_write = random.choice((0.0, 0.003, 0.02))
        self.faults.late_s = random.choice((0.0, 0.3, 3.0))
        gap = random.choice((1.5, 4.0, 8.0))
        calm = random.random() < 0.15
        while engine.now < end:
            engine.run_until(engine.now + random.expovariate(1 / gap))
            if calm or random.random() < 0.55:
                for _ in range(random.choice((1, 1, 2, 3))):
                    self.clients.one()
            else:
                self._fault()

    def _fault(self) -> None:
        random, engine = self.random, self.engine
        up = [node for node in self.nodes.values() if node.process.alive]
        if not up:
            self._start(random.choice(self.slots))
            return
        node = random.choice(up)
        leader = self._leader()
        if leader is not None and random.random() < 0.3:
            node = leader
        fault = random.choice(
            ("freeze", "freeze", "crash", "crash", "stop", "cut", "cut", "clock", "move", "start")
        )
        seconds = random.choice((random.uniform(0.2, 5.0), random.uniform(5.0, 45.0)))
        engine.note(f"FAULT: {fault} {node.name} {seconds:.1f} s")
        if fault == "freeze":
            node.process.freeze(seconds)
        elif fault == "cut":
            node.process.cut_off(seconds)
        elif fault == "crash":
            node.process.alive = False
            engine.at(seconds, lambda: self._start(node.name))
        elif fault == "stop":
            engine.at(0.0, node.stop, node.process)
            engine.at(seconds, lambda: self._start(node.name))
        elif fault == "clock":
            node.process.skew_ms += random.choice((-3_600_000, -60_000, 60_000, 3_600_000))
        elif fault == "move":
            self.kafka.coordinator.move(min(seconds, 15.0))
        else:
            for slot in self.slots:
                self._start(slot)

    def _leader(self) -> Node | None:
        for node in self.nodes.values():
            if node.up and node.herder is not None and node.herder.loop.membership.is_leader:
                return node
        return None

    def _heal(self) -> None:
        engine = self.engine
        engine.note("HEALED")
        self.ledger.healed = True
        self.faults.lost_ack = self.faults.crash_in_write = self.faults.late_s = 0.0
        self.kafka.coordinator.away_until = min(self.kafka.coordinator.away_until, engine.now)
        processes = [node.process for node in self.nodes.values()]
        engine.run_until(max(engine.now, *(p.frozen_until for p in processes)))
        for process in processes:
            process.cut_until = min(process.cut_until, engine.now)
        engine.run_until(engine.now + 40.0)
        for slot in self.slots:
            self._start(slot)
        self._settle("a leader", self._bound_s(), lambda: self._leader() is not None)
        engine.run_until(engine.now + 10.0)
        # What a late word of a dead task left behind goes with the next rebalance.
        node = self.nodes[self.random.choice(self.slots)]
        engine.at(0.0, node.stop, node.process)
        self._settle("the end of a worker", 200.0, lambda: self._stopped(node))
        self._start(node.name)
        self._settle("a leader", self._bound_s(), lambda: self._leader() is not None)
        engine.run_until(engine.now + 10.0)
        for _ in range(3):
            # The first write of a leader that led before is refused: it is fenced by then.
            for name in self.connectors:
                self._mend(name)
            engine.run_until(engine.now + 15.0)
        self._settle("answers to all requests", 300.0, lambda: self.clients.pending == 0)

    def _stopped(self, node: Node) -> bool:
        if node.process.alive and not node.stopping and not node.process.turning:
            self.engine.at(0.0, node.stop, node.process)
        return not node.process.alive

    def _mend(self, name: str) -> None:
        """Replace what cannot run; leave the rest as it is."""
        leader = self._leader()
        assert leader is not None
        assert leader.herder is not None
        config = leader.herder.loop._store.snapshot().raw_connector_config(name)
        if config is None and name not in self._wanted:
            return
        if config is None or self._failed(name):
            self.clients.ask(self.clients.put(name, self.clients.config(name)), leader)
            self.clients.ask(self.clients.restart(name, False, True), leader)

    def _failed(self, name: str) -> bool:
        leader = self._leader()
        if leader is None or leader.herder is None:
            return True
        store = leader.herder.statuses
        states = [store.get(InstanceId(name)), *store.get_all(name).values()]
        return any(status is not None and status.state is State.FAILED for status in states)

    # What must be true in the end.

    def _bound_s(self) -> float:
        return 3 * self.max_delay_s + 2 * Timeouts.rebalance_s + 180.0

    def _settle(self, what: str, seconds: float, done: Callable[[], bool]) -> None:
        engine = self.engine
        until = engine.now + seconds
        while not done():
            if engine.now >= until:
                raise Broken(f"{what}: not within {seconds:.0f} s")
            engine.run_until(min(until, engine.now + 0.5))

    def _converge(self, when: str) -> None:
        engine = self.engine
        until = engine.now + self._bound_s()
        while (missing := next(self._missing(), None)) is not None:
            if engine.now >= until:
                raise Broken(f"{when}, within {self._bound_s():.0f} s: {missing}")
            engine.run_until(min(until, engine.now + 1.0))

    def _stay(self) -> None:
        generation = self.kafka.coordinator.generation
        self.engine.run_until(self.engine.now + _STEADY_S)
        missing = next(self._missing(), None)
        if missing is not None:
            raise Broken(f"what had converged does not stay: {missing}")
        if self.kafka.coordinator.generation > generation + 4:
            raise Broken("the group rebalances without a reason")

    def _missing(self) -> Iterator[str]:
        """What is not as it has to be."""
        coordinator = self.kafka.coordinator
        nodes = [self.nodes[slot] for slot in self.slots]
        for node in nodes:
            if node.herder is None or not node.process.alive:
                yield f"{node.name} does not run: {node.failure!r}"
                return
        members = {node.herder.member.member_id for node in nodes if node.herder is not None}
        if coordinator.state is not GroupState.STABLE or set(coordinator.members) != members:
            yield f"the group is {coordinator.state}, {sorted(coordinator.members)}"
        herders = [node.herder for node in nodes if node.herder is not None]
        configs = herders[0].loop._store.snapshot()
        for herder, node in zip(herders, nodes, strict=True):
            behind = herder.loop._store.snapshot().offset != self._config_offset()
            if behind or herder.loop.changes.rebalance_needed:
                yield f"{node.name} has not followed the configs"
            if not herder.loop.ready.is_set() or herder.loop.leading.trouble:
                yield f"{node.name} is not ready: {herder.loop.leading.trouble}"
            if herder.loop.requests.next_due_s() == 0.0 and len(herder.loop.requests._heap) > 50:
                yield f"requests pile up on {node.name}"
            if herder.loop.fencing._rounds:
                yield f"{node.name} has fencing rounds"
        wanted: set[InstanceId] = set()
        for name in configs.connectors():
            wanted.add(InstanceId(name))
            target = configs.target_state(name)
            count = len(configs.tasks(name))
            config = configs.raw_connector_config(name) or {}
            if target is TargetState.STOPPED:
                if configs.task_count(name):
                    yield f"{name} is stopped and has {configs.task_count(name)} tasks"
                continue
            if target is TargetState.STARTED:
                made = self.ledger.task_configs(name, config)
                if count != len(made):
                    yield f"{name} has {count} tasks instead of {len(made)}"
                    continue
                for number, expected in enumerate(made):
                    raw = configs.raw_task_config(InstanceId(name, number)) or {}
                    if {k: raw.get(k) for k in expected} != expected:
                        yield f"task {name}-{number} has config {raw} instead of {expected}"
            wanted |= set(configs.tasks(name))
        yield from self._misplaced(wanted, nodes)
        yield from self._balance(wanted, herders)

    def _config_offset(self) -> int:
        """The offset after the last record of the config topic. Nobody writes to it in an eager
        group without connectors."""
        records = self.kafka.configs.records
        return records[-1].offset + 1 if records else NO_OFFSET

    def _misplaced(self, wanted: set[InstanceId], nodes: list[Node]) -> Iterator[str]:
        herder = nodes[0].herder
        assert herder is not None
        configs = herder.loop._store.snapshot()
        for instance in sorted(self.ledger.instances() - wanted):
            if not instance.is_task and configs.contains(instance.connector):
                continue
            yield f"{instance} runs, and should not"
        for instance in sorted(wanted):
            target = configs.target_state(instance.connector)
            running = self.ledger.running(instance)
            status = herder.statuses.get(instance)
            runs_paused = instance.is_task or target is TargetState.STARTED
            if len(running) != (1 if runs_paused else 0):
                yield f"{instance} ({target}) runs on {[p.name for _, p in running]}: {status}"
                continue
            expected = {
                TargetState.STARTED: State.RUNNING,
                TargetState.PAUSED: State.PAUSED,
                TargetState.STOPPED: State.STOPPED,
            }[target or TargetState.STARTED]
            if status is None or status.state is not expected:
                yield f"the status of {instance} is {status} instead of {expected}"
            elif running and status.worker_id != running[0][1].name:
                yield f"the status of {instance} names {status.worker_id}"
        for node in nodes:
            for instance in _with_status(node) - wanted:
                yield f"{instance} is gone, and {node.name} shows a status of it"

    def _balance(self, wanted: set[InstanceId], herders: list[SimHerder]) -> Iterator[str]:
        for kind in (True, False):
            counts = [
                sum(i.is_task is kind for i in herder.loop.membership.assigned)
                for herder in herders
            ]
            if sum(counts) != sum(i.is_task is kind for i in wanted):
                yield f"{sum(counts)} are assigned of {wanted}"
            if max(counts) - min(counts) > 1 and self.props["connect.protocol"] != "eager":
                yield f"the group is not balanced: {counts}"

    def _restart_once(self) -> None:
        """A request to restart everything restarts each instance once."""
        leader = self._leader()
        assert leader is not None
        assert leader.herder is not None
        configs = leader.herder.loop._store.snapshot()
        running = [
            name
            for name in configs.connectors()
            if configs.target_state(name) is TargetState.STARTED
        ]
        if not running:
            return
        name = self.random.choice(running)
        before = dict(self.ledger.starts)
        only_failed = self.random.random() < 0.3
        for _ in range(2):
            # A leader that has led before is fenced in its first write, which is answered with a
            # retriable error.
            succeeded = self.clients.succeeded
            self.clients.ask(self.clients.restart(name, only_failed, True))
            self._settle("the answer to a restart", 100.0, lambda: self.clients.pending == 0)
            if self.clients.succeeded > succeeded:
                break
        else:
            raise Broken("a restart is refused twice, though nothing goes wrong")
        self.engine.run_until(self.engine.now + 90.0)
        for instance in {InstanceId(name), *configs.tasks(name)}:
            times = self.ledger.starts.get(instance, 0) - before.get(instance, 0)
            if times != (0 if only_failed else 1):
                raise Broken(
                    f"{instance} was started {times} times for one restart"
                    f" (onlyFailed={only_failed})"
                )
        self._converge("after a restart")

    # Always.

    def _generation(self, process: Process) -> int:
        node = self._nodes[process]
        return -1 if node.herder is None else node.herder.member.heard_generation

    def _knows_until(self, process: Process) -> float:
        """By when this process has to know that it may have lost its work."""
        node = self._nodes.get(process)
        if node is None or node.herder is None:
            return 0.0
        member = node.herder.member
        if member.left_at is not None and self._gives_at_once:
            return member.left_at
        return max(
            member.heard + Timeouts.session_s,
            member.verified + Timeouts.dead_s,
            process.woke_at + (Timeouts.dead_s if member.joining else 0.0),
            self.engine.now if process.turning else process.busy_until,
        )

    def _look(self, process: Process | None) -> None:
        """After an event, of this process; in the middle of the turns of those that wait."""
        if self.ledger.crowded:
            self.ledger.look()
        if process is not None:
            self._look_at_configs(process)
        for waiting in self.engine.turning:
            self._look_at_configs(waiting)

    def _look_at_configs(self, process: Process) -> None:
        node = self._nodes[process]
        if node.herder is None or not process.alive:
            return
        configs = node.herder.loop.configs.current
        if self._checked.get(process) is configs:
            return
        self._checked[process] = configs
        for name in configs.connectors():
            rounds = {config.get("round") for config in configs.raw_task_configs(name)}
            if len(rounds) > 1:
                raise Broken(f"{node.name} acts on half of the task configs of {name}: {rounds}")


def _with_status(node: Node) -> set[InstanceId]:
    """All that this worker shows a status of."""
    herder = node.herder
    assert herder is not None
    statuses = herder.statuses
    names = statuses.connectors()
    tasks = {InstanceId(name, number) for name in names for number in statuses.get_all(name)}
    return tasks | {each for each in map(InstanceId, names) if statuses.get(each) is not None}
