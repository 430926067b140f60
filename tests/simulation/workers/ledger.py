"""What really runs, and what of it may: the oracle's view of connectors and tasks.

Hosts report here when they begin, go on and end, and before they commit. A broken invariant raises
`Broken`; it ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias

from connect.clients.librdkafka.topic_log import LogRecord
from connect.errors import BrokerUnavailable
from connect.runtime.states import InstanceId
from connect.storage import config_records
from connect.storage.config_records import (
    ConnectorConfigRecord,
    TaskCommitRecord,
    TaskConfigRecord,
)
from tests.simulation.workers.engine import Engine, Process

if TYPE_CHECKING:
    from tests.simulation.workers.hosts import SimWorkerConnector
    from tests.simulation.workers.tasks import SimTaskHost

    Host: TypeAlias = SimWorkerConnector | SimTaskHost

__all__ = ["Broken", "Ledger"]

_SLACK_S = 1.5
"""What a worker needs to act on what it knows: its member's network, and its own thread."""


class Broken(BaseException):
    """An invariant does not hold. No `except Exception` of the product sees it."""


class Ledger:
    """See the module. `knows_until(process)`: when this process has to know, by itself, that others
    may run its work; None where it is in the group."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.knows_until: Callable[[Process], float] = lambda _: 0.0
        self.generation: Callable[[Process], int] = lambda _: -1
        """The generation of the last assignment that this process heard."""
        self.shapes: dict[str, tuple[int, int]] = {}
        """By connector, how many tasks it wants, and which version of its source they are for."""
        self._hosts: dict[InstanceId, list[Host]] = {}
        self._processes: dict[Host, Process] = {}
        self._crowded: set[InstanceId] = set()
        self._left: set[Host] = set()
        self._epochs: dict[InstanceId, int] = {}
        self.starts: dict[InstanceId, int] = {}
        self._rounds: dict[str, dict[str, int]] = {}
        self._pending: dict[str, str] = {}
        self._uncommitted: dict[tuple[str, str], set[int]] = {}
        """By writer and connector, the tasks whose configs it wrote since its last commit."""
        self._written: dict[str, int] = {}
        self._last_begun: dict[InstanceId, tuple[int, float]] = {}
        """By instance, generation and time in which the last of its hosts began."""
        self._begun_at: dict[Host, tuple[int, float]] = {}
        self.marks: dict[str, int] = {}
        """How often each request is in the config topic."""
        self.written_at: dict[str, int] = {}
        """By request, the offset of its record in the config topic."""
        self.newest: dict[str, tuple[int, str | None]] = {}
        """By connector, the offset of the newest record of its config, and its request; None if
        that deletes it."""
        self.healed = False
        """From then on nothing fails by itself."""

    def fails(self, config: Mapping[str, str], what: str) -> bool:
        """Whether a connector or task with this config fails now."""
        return config.get(what) == "fails" and not self.healed

    # What connectors answer.

    def task_configs(self, connector: str, config: Mapping[str, str]) -> list[dict[str, str]]:
        count, version = self.shapes.get(connector, (int(config["tasks"]), 0))
        passed = {k.removeprefix("task."): v for k, v in config.items() if k.startswith("task.")}
        # Versions that only add lanes can be taken in place.
        return [
            {
                **passed,
                "kind": config.get("kind", "transfer"),
                "lanes": str(version),
                "round": f"{config['mark']}/{version}",
            }
            for _ in range(min(count, int(config["tasks.max"])))
        ]

    # What hosts say.

    def begins(self, host: Host, process: Process, config: Mapping[str, str]) -> None:
        instance = host.instance
        hosts = self._hosts.setdefault(instance, [])
        hosts[:] = [h for h in hosts if not h.ended and self._processes[h].alive]
        hosts.append(host)
        self._processes[host] = process
        self.starts[instance] = self.starts.get(instance, 0) + 1
        if getattr(host, "moving", True):
            self._count_begin(host)
        self._engine.note(f"{process.name}: begins {instance} ({config.get('round', '')})")
        if len(hosts) > 1:
            self._crowded.add(instance)
        self.look()

    def ends(self, host: Host) -> None:
        hosts = self._hosts.get(host.instance, [])
        if host in hosts:
            process = self._processes[host]
            self._engine.note(f"{process.name}: ends {host.instance}")
            hosts.remove(host)
            self._processes.pop(host, None)

    def goes_on(self, host: Host) -> None:
        if host in self._processes and host not in self._begun_at:
            self._count_begin(host)
        self.look()

    def _count_begin(self, host: Host) -> None:
        """From now on it is the successor of all that began in its generation or before. One that
        was frozen before it had begun moves only when it is thawed.

        The group decides by generations who runs what. A worker that stood still may begin late,
        for a moment, what an earlier generation had given it: it is nobody's successor then.
        """
        begun = (self.generation(self._processes[host]), self._engine.now)
        self._begun_at[host] = begun
        self._last_begun[host.instance] = max(begun, self._last_begun.get(host.instance, begun))

    def reconfigured(self, host: Host, config: Mapping[str, str]) -> None:
        self._engine.note(f"{host.instance} takes {config.get('round')}")

    def abandoned(self, host: Host) -> None:
        """It did not end in time: its worker has given it up, and knows no more of it."""
        self._engine.note(f"{host.instance} is left behind")
        self._left.add(host)

    def running(self, instance: InstanceId) -> list[tuple[Host, Process]]:
        """What moves of it now."""
        found = []
        for host in self._hosts.get(instance, ()):
            process = self._processes[host]
            moving = getattr(host, "moving", True)
            if moving and process.alive and not process.frozen and host not in self._left:
                found.append((host, process))
        return found

    def begun(self, instance: InstanceId) -> list[tuple[Host, Process]]:
        """What has begun of it and not ended, also where it stands still."""
        return [(host, self._processes[host]) for host in self._hosts.get(instance, ())]

    @property
    def crowded(self) -> bool:
        """Whether `look` has anything to look at."""
        return bool(self._crowded)

    def instances(self) -> set[InstanceId]:
        """All of which something moves."""
        return {instance for instance in self._hosts if self.running(instance)}

    def look(self) -> None:
        """No two workers run the same, beyond what they can know."""
        for instance in list(self._crowded):
            if len(self._hosts[instance]) < 2:
                self._crowded.discard(instance)
                continue
            running = self.running(instance)
            guilty = [(h, p) for h, p in running if not self.excused(h, p)]
            processes = {process.name for _, process in running}
            if len(running) > 1 and (len(guilty) > 1 or len(processes) == 1):
                names = ", ".join(sorted(p.name for _, p in running))
                raise Broken(f"{instance} runs more than once: on {names}")
            if len(running) > 1:
                newest = max(running, key=lambda each: self._begun_at[each[0]])
                if any(each is not newest for each in guilty if each[0] is not newest[0]):
                    names = ", ".join(sorted(p.name for _, p in running))
                    raise Broken(f"{instance} runs on {names}: the one that began first could know")

    def excused(self, host: Host, process: Process) -> bool:
        if getattr(host, "plan", None) is not None:
            # Its producer is fenced, which is checked when it commits.
            return True
        return self._engine.now <= self.knows_until(process) + _SLACK_S

    # Offsets and transactions.

    def claims(self, host: SimTaskHost) -> None:
        self._epochs[host.instance] = host.epoch = self._epochs.get(host.instance, -1) + 1

    def fence(self, process: Process, connector: str, tasks: int, done: Future[None]) -> None:
        def fenced() -> None:
            if process.cut:
                done.set_exception(BrokerUnavailable("no broker answers"))
                return
            for number in range(tasks):
                instance = InstanceId(connector, number)
                self._epochs[instance] = self._epochs.get(instance, -1) + 1
            self._engine.note(f"{process.name}: fenced {tasks} tasks of {connector}")
            done.set_result(None)

        self._engine.at(self._engine.random.uniform(0.01, 1.5), fenced, process)

    def commits(self, host: SimTaskHost, *, final: bool = False) -> bool:
        """A task stores offsets. False: its producer is fenced."""
        instance, process = host.instance, self._processes.get(host)
        if host.plan is not None:
            if host.epoch != self._epochs.get(instance):
                return False
            seq = self._seq(instance.connector, host.config.get("round", ""))
            newest = self._written.get(instance.connector, -1)
            if seq < newest and not final:
                raise Broken(
                    f"{instance} commits as a task of an earlier round, after one of a later did"
                )
            self._written[instance.connector] = max(seq, newest)
            return True
        if process is None or host in self._left:
            return True
        told = self.generation(process) >= self._last_begun[instance][0]
        if self.excused(host, process) and not told:
            return True
        if self._begun_at[host] < self._last_begun[instance]:
            raise Broken(f"{instance} on {process.name} stores offsets after its successor began")
        return True

    def failed_after(self, host: SimTaskHost, stored: object, steps: int) -> None:
        """What a failed task stored, which had copied ten records before the gap."""
        if steps or stored != {"offset": 10}:
            raise Broken(f"{host.instance} has failed, steps {steps} times and stores {stored}")

    def _seq(self, connector: str, label: str) -> int:
        return self._rounds.get(connector, {}).get(label, -1)

    # The config topic.

    def appended(self, record: LogRecord, by: str, again: bool) -> None:
        """A record is in the config topic."""
        decoded: Any = config_records.decode_record(record.key, record.value)
        if isinstance(decoded, ConnectorConfigRecord):
            mark = None if decoded.config is None else decoded.config.get("mark")
            self.newest[decoded.connector] = record.offset, mark
        match decoded:
            case ConnectorConfigRecord(_, config) if config is not None and not again:
                self._count(config.get("mark"), record.offset)
            case TaskConfigRecord(task, config):
                self._pending[task.connector] = config.get("round", "")
                self._uncommitted.setdefault((by, task.connector), set()).add(task.task)
            case TaskCommitRecord(connector, count):
                present = self._uncommitted.pop((by, connector), set())
                if not again and not present.issuperset(range(count or 0)):
                    raise Broken(
                        f"{by} commits {count} tasks of {connector}, and wrote configs of {present}"
                    )
                rounds = self._rounds.setdefault(connector, {})
                label = self._pending.get(connector, "")
                rounds[label] = record.offset
        self._engine.note(f"{by}: configs@{record.offset}: {decoded!r}"[:160])

    def _count(self, mark: str | None, offset: int) -> None:
        if mark is not None:
            self.written_at[mark] = offset
            self.marks[mark] = self.marks.get(mark, 0) + 1
            if self.marks[mark] > 1:
                raise Broken(f"the request to put #{mark} is applied twice")
