"""Carries a schedule out: each track on a thread of its own, one action after the other."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from kafka import KafkaAdminClient
from kafka import TopicPartition as Named
from kafka.protocol.admin import ElectionType

from connect.errors import DeadlineExceeded
from tests.support.chaos.arena import Arena
from tests.support.chaos.rough_link import Roughness
from tests.support.chaos.schedule import Action
from tests.support.chaos.topic_faults import Subject, TopicFaults, persist
from tests.support.records.topics import admin
from tests.support.waiting import wait_until

__all__ = ["Injector"]

_LOG = logging.getLogger(__name__)

_READY_S = 120.0
_TIMEOUT_S = 60.0
_LATE_S = 0.004
"""Of a link, for each percent of `Action.amount`."""


@dataclass
class Injector:
    """`done`: how often each action was carried out, "track kind". `longest_s`: how long the
    longest action took, until all was whole again."""

    arena: Arena
    subject: Subject
    seed: int
    began: float = 0.0
    longest_s: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    story: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.topics = TopicFaults(self.arena.flow, self.subject)

    def carry_out(self, actions: Sequence[Action], seconds: float) -> None:
        """Returns after so many seconds, when every action has ended; raises what failed."""
        self.began = time.monotonic()
        threads = [
            threading.Thread(target=self._track, args=([a for a in actions if a.track == track],))
            for track in sorted({action.track for action in actions})
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._wait(self.began + seconds - time.monotonic())
        assert not self.failures, self.failures

    @staticmethod
    def _wait(seconds: float) -> None:
        if seconds > 0:
            threading.Event().wait(seconds)

    def _track(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self._wait(self.began + action.at - time.monotonic())
            name = f"{action.track} {action.which}: {action.kind}"
            self._tell(f"{name}, {action.hold_s:g} s, {action.amount}")
            began = time.monotonic()
            try:
                did = self._do(action)
            except Exception as error:  # noqa: BLE001 - the trial fails with it
                _LOG.exception("%s failed", name)
                self.failures.append(f"{name}: {error!r}")
                return
            with self._lock:
                self.done[f"{action.track} {did}"] += 1
                self.longest_s = max(self.longest_s, time.monotonic() - began)
            self._tell(f"{name}: {did}, over")

    def _tell(self, what: str) -> None:
        with self._lock:
            self.story.append(
                f"{time.strftime('%H:%M:%S')} {time.monotonic() - self.began:7.2f}  {what}"
            )

    def _do(self, action: Action) -> str:
        match action.track:
            case "topics" | "partitions":
                return self.topics.do(action)
            case "workers":
                return self._worker(action)
            case "links":
                return self._link(action)
            case "controllers":
                return self._controller(action)
            case _:
                return self._broker(action)

    # Brokers.

    def _broker(self, action: Action) -> str:
        cluster = self.arena.cluster(action.track)
        node = cluster.node(action.which)
        kind = action.kind
        match kind:
            case "kill" | "restart":
                (node.kill if kind == "kill" else node.stop)()
                self._wait(action.hold_s)
                self._back(action.track, action.which)
            case "pause":
                node.pause()
                self._wait(action.hold_s)
                node.resume()
            case "fill disk":
                disk = self.arena.disks[action.which]
                disk.fill()
                self._wait(action.hold_s)
                node.kill()
                disk.empty()
                self._back(action.track, action.which)
            case "move leaders":
                persist(lambda: self._move_leaders(action), "leaders moved")
            case "roll":
                for number in range(1, len(cluster.nodes) + 1):
                    cluster.node(number).stop()
                    self._back(action.track, number)
            case _:
                self._cut(f"{action.track}{action.which}", kind, action.hold_s)
        self._in_sync(action.track)
        return kind

    def _back(self, side: str, number: int) -> None:
        cluster = self.arena.cluster(side)
        cluster.node(number).start(_READY_S)

    def _in_sync(self, side: str) -> None:
        """Until every partition has all its replicas again: the next fault may take any node."""
        cluster = self.arena.cluster(side)

        missing: list[str] = []

        def whole() -> bool:
            try:
                topics = admin(cluster.bootstrap_servers).list_topics(timeout=10.0).topics
            except KafkaException as error:
                missing[:] = [str(error)]
                return False
            missing[:] = [
                f"{name}-{number}: leader {one.leader}, in sync {one.isrs} of {one.replicas}"
                for name, topic in topics.items()
                for number, one in topic.partitions.items()
                if len(one.isrs) < len(one.replicas) or one.leader < 0
            ]
            return not missing

        try:
            wait_until(whole, _READY_S, f"all replicas of the {side} in sync")
        except DeadlineExceeded as error:
            raise DeadlineExceeded(f"{error}: {missing[:5]}") from error

    def _move_leaders(self, action: Action) -> None:
        """Every partition's next replica becomes its preferred one, and its leader."""
        cluster = self.arena.cluster(action.track)
        flow = self.arena.flow
        names = [t if action.track == "source" else flow.remote(t) for t in self.subject.led]
        known = admin(cluster.bootstrap_servers).list_topics(timeout=_TIMEOUT_S).topics
        wanted = {
            Named(name, number): [*partition.replicas[1:], partition.replicas[0]]
            for name in names
            if name in known
            for number, partition in known[name].partitions.items()
        }
        client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
        try:
            client.alter_partition_reassignments(wanted)
            wait_until(lambda: not client.list_partition_reassignments(), _TIMEOUT_S, "reassigned")
            client.elect_leaders(ElectionType.PREFERRED, wanted, raise_errors=False)
        finally:
            client.close()

    def _cut(self, host: str, kind: str, hold_s: float) -> None:
        network = self.arena.network
        assert network is not None
        peers, direction = None, kind.removeprefix("cut ")
        if direction.startswith("from "):
            side = direction.removeprefix("from ")
            peers, direction = [n for n in self.arena.places if n.startswith(side)], "both"
        network.cut(host, direction, peers)
        self._wait(hold_s)
        network.heal(host, direction, peers)

    # Workers.

    def _worker(self, action: Action) -> str:
        worker = self.arena.workers[action.which - 1]
        kind = action.kind
        match kind:
            case "kill":
                worker.process.kill()
                self._wait(action.hold_s)
                worker.start()
            case "restart":
                worker.stop()
                self._wait(action.hold_s)
                worker.start()
            case "pause":
                worker.process.signal(signal.SIGSTOP)
                self._wait(action.hold_s)
                worker.process.signal(signal.SIGCONT)
            case "clock jump":
                worker.set_clock(action.amount)
                self._wait(action.hold_s)
                worker.set_clock(0)
            case "roll":
                for each in self.arena.workers:
                    each.stop()
                    each.start()
                    self._wait(action.hold_s)
            case _:
                self._cut(worker.name, kind, action.hold_s)
        return kind

    # Links and controllers.

    def _link(self, action: Action) -> str:
        network = self.arena.network
        assert network is not None
        part = action.amount / 100
        how = {
            "loss": Roughness(loss=part),
            "jitter": Roughness(late_s=action.amount * _LATE_S),
            "duplication": Roughness(twice=2 * part),
            "rough": Roughness(part / 2, part, action.amount * _LATE_S / 4),
        }[action.kind]
        with network.rough(network.hosts[action.which - 1], how, f"{self.seed}/{action.at}"):
            self._wait(action.hold_s)
        return action.kind

    def _controller(self, action: Action) -> str:
        (controller,) = self.arena.cluster(("source", "target")[action.which - 1]).controllers
        if action.kind == "pause":
            controller.pause()
            self._wait(action.hold_s)
            controller.resume()
        else:
            controller.kill()
            self._wait(action.hold_s)
            controller.launch()
        return action.kind
