"""A distributed herder without Kafka: its group is driven by the test, its stores are in memory.

`DrivenMember` stands for the group member, `Leader` for another worker that leads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar, cast

from connect.clients.groups.member import GroupMember
from connect.clients.rest_client import RestAnswer, RestClient
from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.data import json_codec
from connect.metrics.registry import MetricRegistry
from connect.plugin import Connector
from connect.protocol.signatures import sign
from connect.runtime.distributed.group_config import DistributedConfig
from connect.runtime.distributed.herder import DistributedHerder
from connect.runtime.distributed.membership import Membership
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.states import InstanceId, State
from connect.runtime.work.task_config_publisher import TaskConfigPublisher
from connect.runtime.worker import Worker
from connect.storage.config_records import SessionKey
from connect.storage.config_state import ConfigTransform
from connect.storage.config_store import ConfigListener
from connect.storage.instance_id import TargetState
from connect.storage.memory_status_store import MemoryConfigStore, MemoryStatusStore
from connect.storage.status_records import InstanceStatus
from tests.support.waiting import wait_until
from tests.support.workers.driven_member import URL, DrivenMember
from tests.support.workers.memory_offset_store import MemoryOffsetStore

__all__ = ["TIMEOUT_S", "Leader", "Rig", "RigStore", "herder_rig"]

T = TypeVar("T")
TIMEOUT_S = 20.0
WORKER_ID = "me:8083"
BYTES = "ByteArrayConverter"


class Leader(RestClient):
    """Another worker that leads, asked by REST. Each request waits in `asked` until the test
    answers it; `answers` are given at once, as long as there are some."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, bytes | None, Mapping[str, str], Future[RestAnswer]]] = []
        self.answers: deque[RestAnswer] = deque()
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> RestAnswer:
        answer: Future[RestAnswer] = Future()
        with self._lock:
            if self.answers:
                answer.set_result(self.answers.popleft())
            self.asked.append((f"{method} {url}", body, headers or {}, answer))
        return answer.result(TIMEOUT_S)


class RigStore(MemoryConfigStore):
    """Configs in memory. `refusals` are raised by what leaders write, `unread` by reading to the
    end, `unclaimable` by claiming privileges, one after the other; `claims` counts how often they
    were claimed."""

    def __init__(self, transform: ConfigTransform) -> None:
        super().__init__(transform=transform)
        self.listener: ConfigListener | None = None
        self.refusals: deque[Exception] = deque()
        self.unclaimable: deque[Exception] = deque()
        self.unread: deque[Exception] = deque()
        self.claims = 0

    def set_listener(self, listener: ConfigListener) -> None:
        self.listener = listener
        super().set_listener(listener)

    def refresh(self, deadline: Deadline) -> None:
        if self.unread:
            raise self.unread.popleft()

    def claim_write_privileges(self, deadline: Deadline) -> None:
        self.claims += 1
        if self.unclaimable:
            raise self.unclaimable.popleft()

    def put_connector_config(
        self,
        connector: str,
        config: Mapping[str, str | None],
        target_state: TargetState | None = None,
    ) -> None:
        self._may_write()
        super().put_connector_config(connector, config, target_state)

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        self._may_write()
        super().put_task_configs(connector, configs)

    def put_session_key(self, key: SessionKey) -> None:
        self._may_write()
        super().put_session_key(key)

    def _may_write(self) -> None:
        if self.refusals:
            raise self.refusals.popleft()


class _Herder(DistributedHerder):
    driven: DrivenMember

    def post(self, command: Callable[[], None]) -> None:
        """Run this in a turn of the herder."""
        self._loop.post(0.0, command)

    @property
    def publisher(self) -> TaskConfigPublisher:
        return self._loop.publisher

    def _make_member(self, membership: Membership) -> GroupMember:
        self.driven = DrivenMember(membership)
        return cast(GroupMember, self.driven)


class Rig:
    """A herder with all that a test drives or looks at."""

    def __init__(self, props: Mapping[str, str], connectors: Sequence[type[Connector]]) -> None:
        plugins = PluginRegistry(discover=False)
        for connector in connectors:
            plugins.register(connector)
        worker = Worker(
            WorkerConfig.from_properties(props),
            plugins,
            MetricRegistry(),
            worker_id=WORKER_ID,
            offset_store=MemoryOffsetStore(),
        )
        self.store = RigStore(lambda connector, raw: worker.resolved(raw))
        self.statuses = MemoryStatusStore()
        self.leader = Leader()
        self.herder = _Herder(
            DistributedConfig.from_properties(props),
            worker,
            self.store,
            self.statuses,
            url=URL,
            client=self.leader,
        )
        self.member = self.herder.driven

    def start(self) -> Rig:
        self.herder.start(Deadline(TIMEOUT_S))
        return self

    def await_ready(self) -> Rig:
        assert self.herder.await_ready(TIMEOUT_S)
        return self

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """As another worker asks for it, rightly signed."""
        key = self.store.snapshot().session_key
        assert key is not None
        body = json_codec.encode([dict(one) for one in configs])
        signature = ("HmacSHA256", sign(key.key, "HmacSHA256", body))
        self.herder.put_task_configs(connector, lambda _: configs, signature, body)

    def state(self, connector: str, task: int = -1) -> State | None:
        """As the status store has it."""
        status = self.status(connector, task)
        return None if status is None else status.state

    def status(self, connector: str, task: int = -1) -> InstanceStatus | None:
        return self.statuses.get(InstanceId(connector, task))

    def states(self, connector: str) -> list[State | None]:
        """Of the connector and its tasks."""
        tasks = self.statuses.get_all(connector)
        return [self.state(connector), *(status.state for status in tasks.values())]

    def becomes(self, connector: str, *states: State) -> None:
        self.until(lambda: self.states(connector) == list(states), f"{connector}: {states}")

    def until(self, condition: Callable[[], T], what: str) -> T:
        def check() -> T:
            self.herder.check()
            return condition()

        return wait_until(check, TIMEOUT_S, what)


@contextmanager
def herder_rig(*connectors: type[Connector], **props: str) -> Iterator[Rig]:
    """A rig that is not started yet. Names of properties have `_` for `.`."""
    given = {key.replace("_", "."): value for key, value in props.items()}
    opened = Rig(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "group.id": "g",
            "config.storage.topic": "configs",
            "offset.storage.topic": "offsets",
            "status.storage.topic": "statuses",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "header.converter": BYTES,
            "scheduled.rebalance.max.delay.ms": "0",
            **given,
        },
        connectors,
    )
    try:
        yield opened
    finally:
        opened.member.go_on()
        for *_, answer in opened.leader.asked:
            if not answer.done():
                answer.set_result(RestAnswer(204, b""))
        opened.herder.stop(Deadline(TIMEOUT_S))
