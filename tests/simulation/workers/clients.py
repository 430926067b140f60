"""Those who use the REST API: several at once, of any worker, forwarded to leaders as REST does.

What a request says in the end is compared with what was written: once where it succeeded, at most
once where it did not.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from connect.errors import ConnectError
from connect.runtime.errors import NotAssigned, NotLeader
from connect.runtime.states import InstanceId, TargetState
from connect.storage import config_records
from connect.storage.config_records import RestartRequest
from tests.simulation.workers.herder import Kafka, Node, SimHerder
from tests.simulation.workers.hosts import SimWorkerConnector
from tests.simulation.workers.ledger import Broken

__all__ = ["Clients"]

_TIMEOUT_S = 90.0
_HOPS = 2


@dataclass
class _Request:
    name: str
    submit: Callable[[SimHerder], Future[Any]]
    mark: str | None = None
    answered: bool = False


class Clients:
    """`targets`: by connector, the last target state of a request that succeeded, while no other
    was under way."""

    def __init__(self, kafka: Kafka, connectors: tuple[str, ...]) -> None:
        self._kafka = kafka
        self._engine = kafka.engine
        self._connectors = connectors
        self._marks = 0
        self.pending = 0
        self.succeeded = 0
        self.failed: set[str] = set()
        self.sure: set[str] = set()

    def config(self, name: str, **more: str) -> dict[str, str]:
        random = self._engine.random
        self._marks += 1
        config = {
            "name": name,
            "connector.class": "SimSource",
            "tasks.max": "6",
            "tasks": str(random.randint(0, 5)),
            "mark": str(self._marks),
            "kind": random.choice(("transfer", "transfer", "record")),
        }
        for key, values in (
            ("stop", ("slow",)),
            ("start", ("slow", "fails")),
            ("answers", ("fails",)),
            ("task.stop", ("slow",)),
            ("task.start", ("slow", "fails")),
            ("task.dies", ("soon",)),
            ("task.stubborn", ("yes",)),
            ("rate", ("1", "2")),
        ):
            if random.random() < 0.12:
                config[key] = random.choice(values)
        return {**config, **more}

    def one(self) -> None:
        """Somebody asks for something."""
        random = self._engine.random
        name = random.choice(self._connectors)
        choices: list[Callable[[str], _Request]] = [
            self._put,
            self._put,
            self._put,
            self._delete,
            self._pause,
            self._resume,
            self._stop,
            self._restart_all,
            self._restart_all,
            self._restart_connector,
            self._restart_task,
            self._reset,
            self._renew,
            self._forge,
        ]
        self.ask(random.choice(choices)(name))

    def ask(self, request: _Request, node: Node | None = None) -> None:
        nodes = [n for n in self._kafka.nodes.values() if n.up]
        if not nodes:
            return
        node = node or self._engine.random.choice(nodes)
        self.pending += 1
        self._engine.note(f"client: {request.name} to {node.name}")
        self._engine.at(_TIMEOUT_S + 5.0, lambda: self._done(request, "no answer"))
        self._send(request, node, _HOPS)

    def _send(self, request: _Request, node: Node, hops: int) -> None:
        def arrive() -> None:
            herder = node.herder
            if not node.process.alive or herder is None:
                self._done(request, "nobody listens")
                return
            node.process.run(lambda: call(herder))

        def call(herder: SimHerder) -> None:
            try:
                answer = request.submit(herder)
            except ConnectError as error:
                self._done(request, str(error))
                return
            self._engine.at(_TIMEOUT_S, answer.cancel, node.process)
            answer.add_done_callback(lambda done: answered(herder, done))

        def answered(herder: SimHerder, done: Future[Any]) -> None:
            error = None if done.cancelled() else done.exception()
            if done.cancelled():
                self._done(request, "timed out")
            elif isinstance(error, NotLeader | NotAssigned) and hops:
                url = error.url
                other = None if url is None else self._kafka.nodes.get(url)
                if other is None:
                    self._done(request, "409")
                else:
                    self._engine.at(
                        self._kafka.latency_s(), lambda: self._send(request, other, hops - 1)
                    )
            elif error is not None:
                self._done(request, f"{type(error).__name__}: {error}")
            else:
                self._written(request, herder, done.result())

        self._engine.at(self._kafka.latency_s(), arrive)

    def _written(self, request: _Request, herder: SimHerder, result: Any) -> None:
        if isinstance(result, Future):
            result.add_done_callback(
                lambda done: self._done(
                    request, None if done.exception() is None else str(done.exception())
                )
            )
            return
        if request.mark is not None:
            count = self._kafka.ledger.marks.get(request.mark, 0)
            if count == 0:
                raise Broken(f"{request.name} succeeded, and is not in the config topic")
            if not request.answered:
                self.sure.add(request.mark)
        self._done(request, None)

    def _done(self, request: _Request, error: str | None) -> None:
        if request.answered:
            return
        request.answered = True
        self.pending -= 1
        if error is None:
            self.succeeded += 1
        self._engine.note(f"client: {request.name}: {'done' if error is None else error}")

    # The requests.

    def _put(self, name: str) -> _Request:
        return self.put(name, self.config(name))

    def put(self, name: str, config: dict[str, str]) -> _Request:
        initial = self._engine.random.choice((None, None, None, TargetState.PAUSED))

        def submit(herder: SimHerder) -> Future[Any]:
            def write() -> None:
                herder.operations.put(name, config, initial, allow_replace=True)
                self._check_read_back(herder, name, config["mark"])

            return herder.loop.requests.submit(write)  # type: ignore[no-any-return]

        return _Request(f"put {name} #{config['mark']}", submit, config["mark"])

    def _check_read_back(self, herder: SimHerder, name: str, mark: str) -> None:
        """What was written has been read; a leader that was replaced may have written since."""
        ledger, read = self._kafka.ledger, herder.loop._store.snapshot()
        if read.offset <= ledger.written_at[mark]:
            raise Broken(f"{name} was written and is not read back")
        offset, newest = ledger.newest[name]
        found = (read.raw_connector_config(name) or {}).get("mark")
        if offset < read.offset and found != newest:
            raise Broken(f"{name} was written as #{newest}, and is read as #{found}")

    def _on_herder(self, text: str, call: Callable[[SimHerder], Any]) -> _Request:
        return _Request(text, lambda herder: herder.loop.requests.submit(lambda: call(herder)))

    def _delete(self, name: str) -> _Request:
        return self._on_herder(f"delete {name}", lambda herder: herder.operations.delete(name))

    def _pause(self, name: str) -> _Request:
        return self.target(name, TargetState.PAUSED)

    def _resume(self, name: str) -> _Request:
        return self.target(name, TargetState.STARTED)

    def target(self, name: str, state: TargetState) -> _Request:
        """Any worker writes it, on the thread of the request."""

        def submit(herder: SimHerder) -> Future[Any]:
            store = herder.loop._store
            sent: Future[Any] = Future()
            if not store.snapshot().contains(name):
                sent.set_exception(ConnectError("404"))
                return sent
            key = config_records.target_state_key(name)
            return store._log.send(key, config_records.encode_target_state(state))  # type: ignore[no-any-return]

        return _Request(f"{name} is to be {state.value}", submit)

    def _stop(self, name: str) -> _Request:
        return self._on_herder(f"stop {name}", lambda herder: herder.operations.stop(name))

    def _restart_all(self, name: str) -> _Request:
        random = self._engine.random
        return self.restart(name, random.random() < 0.5, random.random() < 0.7)

    def restart(self, name: str, only_failed: bool, include_tasks: bool) -> _Request:
        request = RestartRequest(name, only_failed=only_failed, include_tasks=include_tasks)
        return self._on_herder(
            f"restart {name} onlyFailed={only_failed} includeTasks={include_tasks}",
            lambda herder: herder.operations.request_restart(request),
        )

    def _restart_connector(self, name: str) -> _Request:
        return self._on_herder(
            f"restart connector {name}",
            lambda herder: herder.operations.restart_connector(name),
        )

    def _restart_task(self, name: str) -> _Request:
        task = InstanceId(name, self._engine.random.randint(0, 4))
        return self._on_herder(
            f"restart task {task}", lambda herder: herder.operations.restart_task(task)
        )

    def _reset(self, name: str) -> _Request:
        """Offsets are only reset while nothing of the connector runs."""

        def reset(herder: SimHerder) -> None:
            herder.operations.stopped_config(name)
            ledger = self._kafka.ledger
            for instance in ledger.instances():
                if instance.connector == name and instance.is_task:
                    for host, process in ledger.running(instance):
                        if not ledger.excused(host, process):
                            raise Broken(f"offsets of {name} are reset while {instance} runs")

        return self._on_herder(f"reset offsets of {name}", reset)

    def _forge(self, name: str) -> _Request:
        """Task configs that no worker of the group has signed."""

        def submit(herder: SimHerder) -> Future[Any]:
            signed = herder.loop.membership.signs
            signature = ("HmacSHA256", "bm90aGluZw==")
            answer = herder.take_task_configs(name, [], signature, b"[]")
            if signed and not (answer.done() and answer.exception() is not None):
                raise Broken("a request is served that nobody of the group has signed")
            return answer

        return _Request(f"forged task configs of {name}", submit)

    def _renew(self, name: str) -> _Request:
        """The connector's source has changed, which its worker finds out."""

        def submit(herder: SimHerder) -> Future[Any]:
            ledger, random = self._kafka.ledger, self._engine.random
            count, version = ledger.shapes.get(name, (2, 0))
            if random.random() < 0.5:
                count = random.randint(0, 5)
            ledger.shapes[name] = (count, version + 1)
            for host, process in ledger.begun(InstanceId(name)):
                if isinstance(host, SimWorkerConnector):
                    # A worker that stands still finds out when it goes on.
                    self._engine.at(0.0, host.reconfigure, process)
            done: Future[Any] = Future()
            done.set_result(None)
            return done

        return _Request(f"the source of {name} changes", submit)
