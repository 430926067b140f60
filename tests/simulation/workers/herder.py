"""One worker's process: the real herder and stores, on simulated clients and without threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from connect.clients.groups.member import GroupMember
from connect.clients.rest_client import RestClient
from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.data import json_codec
from connect.errors import BrokerUnavailable, ConnectError
from connect.protocol.signatures import sign
from connect.runtime.distributed.config_changes import PendingChanges
from connect.runtime.distributed.group_config import DistributedConfig, ExactlyOnceSupport
from connect.runtime.distributed.herder import DistributedHerder
from connect.runtime.distributed.leader_client import InternalRequests
from connect.runtime.distributed.membership import Membership
from connect.runtime.distributed.request_handlers import LeaderRequests
from connect.runtime.errors import LeaderRefused, is_final
from connect.runtime.states import InstanceId
from connect.storage.config_records import SessionKey
from connect.storage.kafka_config_store import KafkaConfigStore
from connect.storage.status_store import KafkaStatusStore
from tests.simulation.workers.engine import Crashed, Engine, Event, Process
from tests.simulation.workers.group import SimCoordinator
from tests.simulation.workers.hosts import SimWorker
from tests.simulation.workers.java import JavaAssignor
from tests.simulation.workers.ledger import Ledger
from tests.simulation.workers.member import SimMember
from tests.simulation.workers.topics import Faults, SimLeaderProducer, SimTopic, SimTopicLog

__all__ = ["Configs", "Kafka", "Node", "SimHerder"]

T = TypeVar("T")
_START_S = 60.0
_REQUEST_S = 90.0


@dataclass
class Kafka:
    """What all workers share. `nodes`: by URL, the process that listens there."""

    engine: Engine
    faults: Faults
    coordinator: SimCoordinator
    configs: SimTopic
    statuses: SimTopic
    ledger: Ledger
    nodes: dict[str, Node] = field(default_factory=dict)

    def latency_s(self) -> float:
        return self.configs.latency_s()


class _StatusStore(KafkaStatusStore):
    """Its retries come from the engine, not from a thread."""

    def __init__(self, process: Process, *arguments: Any, **options: Any) -> None:
        self._process = process
        super().__init__(*arguments, **options)
        self._retries.wake = self._retry_soon  # type: ignore[method-assign]

    def start(self, deadline: Deadline) -> None:
        self._log.start(deadline)

    def flush(self, deadline: Deadline) -> bool:
        engine = self._process.engine
        until = engine.now + deadline.remaining()
        return engine.block(self._process, until, lambda: self._unsettled == 0)

    def stop(self, deadline: Deadline) -> None:
        self.flush(deadline)
        self._log.stop(deadline)

    @property
    def waiting(self) -> int:
        """Statuses that are not written yet."""
        return self._unsettled

    def _retry_soon(self) -> None:
        self._process.engine.at(0.1, self._write_again, self._process)


class _Requests:
    """Stands for `InternalRequests`: signs as it does, and reaches leaders in virtual time."""

    def __init__(
        self, process: Process, kafka: Kafka, key: Callable[[], SessionKey | None], algorithm: str
    ) -> None:
        self._process = process
        self._kafka = kafka
        self._key = key
        self._algorithm = algorithm

    def post_task_configs(
        self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]]
    ) -> Future[None]:
        body = json_codec.encode([dict(config) for config in configs])
        copied = [dict(config) for config in configs]
        return self._ask(
            leader_url,
            body,
            lambda herder, signature: herder.take_task_configs(connector, copied, signature, body),
        )

    def fence_zombies(self, leader_url: str, connector: str) -> Future[None]:
        return self._ask(
            leader_url, b"", lambda herder, signature: herder.take_fencing(connector, signature)
        )

    def close(self) -> None:
        """Nothing is open."""

    def _ask(
        self,
        url: str,
        body: bytes,
        call: Callable[[SimHerder, tuple[str | None, str | None]], Future[Any]],
    ) -> Future[None]:
        answer: Future[None] = Future()
        engine, kafka, key = self._process.engine, self._kafka, self._key()
        signature: tuple[str | None, str | None] = (None, None)
        if key is not None:
            signature = (self._algorithm, sign(key.key, self._algorithm, body))

        def settle(error: BaseException | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(None)
            else:
                status = getattr(error, "http_status", 500)
                refused = LeaderRefused(str(error), status, final=is_final(error))
                answer.set_exception(refused)

        def told(done: Future[Any]) -> None:
            error = BaseException() if done.cancelled() else done.exception()
            engine.at(kafka.latency_s(), lambda: settle(error), self._process)

        def arrive() -> None:
            node = kafka.nodes.get(url)
            if node is None or node.herder is None or not node.process.alive:
                engine.at(0.0, lambda: settle(BrokerUnavailable("nobody listens")), self._process)
                return
            herder = node.herder
            node.process.run(lambda: call(herder, signature).add_done_callback(told))

        engine.at(kafka.latency_s(), arrive)
        late = BrokerUnavailable("the leader does not answer")
        engine.at(_REQUEST_S, lambda: settle(late), self._process)
        return answer


class SimHerder(DistributedHerder):
    """The real herder; its requests return futures instead of waiting."""

    member: SimMember

    def __init__(self, node: Node, config: DistributedConfig, worker: SimWorker) -> None:
        process, kafka = node.process, node.kafka
        once = config.exactly_once
        configs = KafkaConfigStore(
            config.config_topic,
            {},
            transactional_id="leader" if once.fences_leaders else None,
            read_committed=once is ExactlyOnceSupport.ENABLED,
            transform=lambda _, raw: worker.resolved(raw),
            clock=process.clock,
            make_log=lambda name, props, take, **_: cast(
                Any, SimTopicLog(process, kafka.configs, take, insists=True)
            ),
            make_leader=partial(cast(Any, SimLeaderProducer), process, kafka.configs),
        )
        statuses = _StatusStore(
            process,
            config.status_topic,
            {},
            clock=process.clock,
            make_log=lambda name, props, take, **_: SimTopicLog(
                process, kafka.statuses, take, insists=False
            ),
        )
        self._node = node
        self.statuses = statuses
        super().__init__(
            config,
            worker,
            configs,
            statuses,
            url=node.url,
            client=RestClient(),
            wait=self._let_pass,
        )
        if node.java:
            leader = self._loop.membership._leader
            leader._cooperative = JavaAssignor(config.max_delay_ms)
        worker.find_run = self._run_of
        worker.submit = self._loop.requests.submit

    @property
    def loop(self) -> Any:
        return self._loop

    @property
    def operations(self) -> LeaderRequests:
        return self._do

    def begin(self) -> None:
        """As `start`, without a thread."""
        deadline = self._deadline(_START_S)
        self._worker.start(deadline)
        self._status_store.start(deadline)
        self._start_configs(deadline)
        self._loop.begin()

    def end(self) -> None:
        """As `stop`, without a thread."""
        deadline = self._deadline(15.0)
        self._loop._close(deadline)
        self._status_store.stop(self._deadline(1.0))
        self._configs.stop(self._deadline(1.0))

    def take_task_configs(
        self,
        name: str,
        configs: Sequence[Mapping[str, str]],
        signature: tuple[str | None, str | None],
        body: bytes,
    ) -> Future[None]:
        try:
            self._check_signature(signature, body)
        except ConnectError as error:
            return _failed(error)
        return self._loop.requests.submit(lambda: self._do.put_task_configs(name, configs))

    def take_fencing(self, name: str, signature: tuple[str | None, str | None]) -> Future[None]:
        try:
            self._check_signature(signature, b"")
        except ConnectError as error:
            return _failed(error)
        answer: Future[None] = Future()

        def fenced(done: Future[None]) -> None:
            error = done.exception()
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        def asked(done: Future[Future[None]]) -> None:
            error = done.exception()
            if error is None:
                done.result().add_done_callback(fenced)
            else:
                answer.set_exception(error)

        self._loop.requests.submit(lambda: self._do.fence(name)).add_done_callback(asked)
        return answer

    def _let_pass(self, event: object, seconds: float) -> bool:
        process = self._node.process
        process.engine.block(process, process.engine.now + seconds, lambda: False)
        return False

    def _run_of(self, instance: InstanceId) -> Any:
        running = self._loop.work._tasks.get(instance)
        return None if running is None else running.run

    def _make_member(self, membership: Membership) -> GroupMember:
        node = self._node
        self.member = SimMember(
            node.process, node.kafka.coordinator, membership, node.wake, node.due
        )
        return cast(GroupMember, self.member)

    def _make_requests(self, changes: PendingChanges) -> InternalRequests:
        node = self._node
        requests = _Requests(
            node.process,
            node.kafka,
            lambda: changes.session_key,
            self._config.signature_algorithm,
        )
        return cast(InternalRequests, requests)


class Configs(NamedTuple):
    """Of all workers."""

    group: DistributedConfig
    worker: WorkerConfig

    @classmethod
    def from_properties(cls, props: Mapping[str, str]) -> Configs:
        return cls(DistributedConfig.from_properties(props), WorkerConfig.from_properties(props))


class Node:
    """One run of one worker. `restarted` makes the next."""

    def __init__(self, kafka: Kafka, name: str, configs: Configs, *, java: bool = False) -> None:
        """`java`: it leads as a Java worker does."""
        self.java = java
        self.kafka = kafka
        self.name = name
        self.url = f"http://{name}/"
        self._configs = configs
        self.engine = kafka.engine
        self.process = Process(kafka.engine, name)
        self.herder: SimHerder | None = None
        self.failure: Exception | None = None
        self.stopping = False
        self._turn_at: float | None = None
        self._next_turn: Event | None = None
        self._again = False
        kafka.nodes[self.url] = self
        self.engine.at(0.0, self._start, self.process)

    @property
    def up(self) -> bool:
        """Whether it runs and is not stopping."""
        return self.process.alive and self.herder is not None and not self.stopping

    def _start(self) -> None:
        self.engine.note(f"{self.name}: starts")
        config, worker_config = self._configs
        once = config.exactly_once is ExactlyOnceSupport.ENABLED
        worker = SimWorker(self.process, self.kafka.ledger, worker_config, exactly_once=once)
        self._worker = worker
        herder = SimHerder(self, config, worker)
        self.process.turning = True
        try:
            herder.begin()
        except ConnectError as error:
            self.engine.note(f"{self.name}: does not start: {error}")
            self.failure = error
            self.process.alive = False
            return
        finally:
            self.process.turning = False
        self.herder = herder
        self.wake()

    def wake(self) -> None:
        """Have the herder take a turn now."""
        self.due(0.0)

    def due(self, seconds: float) -> None:
        """Have the herder take a turn after so long, or before."""
        when = self.engine.now + max(seconds, 0.0)
        if self.process.turning and seconds <= 0:
            self._again = True
            return
        if self._turn_at is not None and self._turn_at <= when:
            return
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._turn_at = when
        self._next_turn = self.engine.at(when - self.engine.now, self._take_turn, self.process)

    def _take_turn(self) -> None:
        self._turn_at = self._next_turn = None
        self._turn()

    def _turn(self) -> None:
        if self.process.turning or self.herder is None or self.stopping:
            return
        self.process.turning = True
        self._again = False
        try:
            self.herder.loop.turn()
        except Crashed:
            raise
        except Exception as error:  # noqa: BLE001 - as the top of the herder's thread
            self.engine.note(f"{self.name}: the herder ends: {error!r}")
            self.failure = error
            self.process.alive = False
            return
        finally:
            self.process.turning = False
        if self._again or self.herder.member.polling:
            self.due(0.001)
        elif self._turn_at is None:
            self.due(0.05)

    def stop(self) -> None:
        """An orderly stop."""
        if self.herder is None or self.stopping or self.process.turning:
            return
        self.stopping = True
        self.process.turning = True
        self.herder.end()
        self.process.alive = False
        self.engine.note(f"{self.name}: has stopped")

    def close(self) -> None:
        """Free what the process has of the real machine."""
        worker = getattr(self, "_worker", None)
        if worker is not None:
            worker.stop(Deadline(0.0))


def _failed(error: ConnectError) -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_exception(error)
    return answer
