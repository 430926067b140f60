"""A simulated cluster: brokers, topics, leaders, and what can befall them.

Everything that people or machines do to a cluster is a method here; what befalls single requests is
in `BrokerFaults`, what befalls connections in `NetworkOptions`.
"""

from __future__ import annotations

import random
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.simulation.kafka.broker import Broker, BrokerFaults
from tests.simulation.kafka.log import Batch, Log
from tests.simulation.kafka.network import Connection, Network, NetworkOptions
from tests.simulation.kafka.partition import NO_LEADER, SimulatedPartition
from tests.simulation.kafka.virtual_time import VirtualTime
from tests.simulation.kafka.wire_format import FetchedPart, ProducedPart

__all__ = ["Cluster", "Topic", "TopicView"]

NOT_LEADER_OR_FOLLOWER = 6
_KEPT_VIEWS = 6

Key = tuple[str, int]


@dataclass(slots=True)
class Topic:
    name: str
    id: uuid.UUID
    partitions: list[SimulatedPartition]


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as a broker's metadata has it: its id, and (leader, leader epoch) by partition."""

    id: uuid.UUID
    leaders: tuple[tuple[int, int], ...]


class Cluster:
    """See the module."""

    def __init__(
        self,
        name: str,
        network: Network,
        rng: random.Random,
        brokers: int,
        note: Callable[[str], None],
        *,
        names_old_duplicates: bool = False,
    ) -> None:
        """`note`: tells the history what happened."""
        self.name = name
        self.network = network
        self.time: VirtualTime = network.time
        self.rng = rng
        self.note = note
        self.faults = BrokerFaults()
        self.connections = NetworkOptions()
        self.fetches_by_id = True
        """Its brokers support that, as they do since Kafka 3.1."""
        self.shortest_wait_s = 0.0
        """A fetch with nothing to read is not answered sooner."""
        self.brokers = {n: Broker(self, n) for n in range(1, brokers + 1)}
        self.topics: dict[str, Topic] = {}
        self.view_before: tuple[float, dict[str, TopicView]] | None = None
        """When a topic was deleted last, and the metadata before that."""
        self.old_until = 0.0
        """Until then some brokers have metadata from before that."""
        self.ids: dict[str, list[uuid.UUID]] = {}
        """Of all topics of a name that there were, in their order."""
        self.views: deque[tuple[float, dict[str, TopicView]]] = deque(maxlen=_KEPT_VIEWS)
        """Metadata as it was, with the time since when; the last is the present."""
        self.refuses_records: Callable[[Key, bytes], bool] | None = None
        """Whether the records of a batch break a rule of the topic (INVALID_RECORD)."""
        self.takes_transactional: Callable[[Batch, Key], bool] = lambda _batch, _key: False
        """Whether the batch's producer has added the partition to its open transaction."""
        self.on_appended: Callable[[SimulatedPartition, Batch], None] = lambda *_: None
        self.on_fetched: Callable[[Connection, list[FetchedPart]], None] = lambda *_: None
        """A fetch is about to be answered so."""
        self.on_truncating: Callable[[SimulatedPartition], None] = lambda _partition: None
        """Acknowledged records will be lost from this log now."""
        self.on_truncated: Callable[[SimulatedPartition, int, bool], None] = lambda *_: None
        """(partition, its new end, whether acknowledged records were lost)."""
        self.on_answered: Callable[[Connection, int, Sequence[ProducedPart]], None] = lambda *_: (
            None
        )
        """A client can read the answer to a produce request."""
        self._names_old_duplicates = names_old_duplicates
        self._next_producer = 1000
        self._publish()

    # What exists.

    def create(self, name: str, partitions: int) -> Topic:
        """A new topic, its leaders spread over the brokers that are up."""
        up = self.nodes_up or list(self.brokers)
        made = [
            SimulatedPartition(
                name, n, Log(names_old_duplicates=self._names_old_duplicates), up[n % len(up)]
            )
            for n in range(partitions)
        ]
        topic = Topic(name, uuid.UUID(int=self.rng.getrandbits(128) | 1), made)
        self.topics[name] = topic
        self.ids.setdefault(name, []).append(topic.id)
        self._publish()
        return topic

    def grow(self, name: str) -> None:
        """A topic gets another partition."""
        topic = self.topics[name]
        up = self.nodes_up or list(self.brokers)
        number = len(topic.partitions)
        log = Log(names_old_duplicates=self._names_old_duplicates)
        topic.partitions.append(SimulatedPartition(name, number, log, up[number % len(up)]))
        self._publish()

    def delete(self, name: str) -> None:
        topic = self.topics.pop(name)
        self.view_before = (self.time.monotonic(), self.views[-1][1])
        self.note(f"{self.name}: topic {name} is deleted")
        for partition in topic.partitions:
            partition.answer_waiting(NOT_LEADER_OR_FOLLOWER)
        self._publish()
        self._look_again()

    def find(self, key: Key) -> SimulatedPartition | None:
        topic = self.topics.get(key[0])
        if topic is None or not 0 <= key[1] < len(topic.partitions):
            return None
        return topic.partitions[key[1]]

    @property
    def partitions(self) -> list[SimulatedPartition]:
        return [p for topic in self.topics.values() for p in topic.partitions]

    @property
    def nodes_up(self) -> list[int]:
        return [n for n, broker in self.brokers.items() if broker.up]

    def new_producer_id(self) -> int:
        self._next_producer += 1
        return self._next_producer

    # What brokers report.

    def appended(self, partition: SimulatedPartition, batch: Batch) -> None:
        self.on_appended(partition, batch)

    def moved_on(self, partition: SimulatedPartition) -> None:
        """Its high watermark, or what may be read, has moved."""
        broker = self.brokers.get(partition.leader)
        if broker is not None:
            broker.look_again()

    # What befalls it.

    def write(self, key: Key, data: bytes, marker: int | None = None) -> Batch:
        """Append as some other producer does, and have it replicated."""
        partition = self.find(key)
        assert partition is not None
        batch = partition.log.append(data, partition.epoch, marker)
        partition.replicate()
        self.moved_on(partition)
        return batch

    def resume_replication(self, partition: SimulatedPartition) -> None:
        if not partition.replicating:
            partition.replicating = True
            partition.replicate()
            self.moved_on(partition)

    def move_leader(self, partition: SimulatedPartition, to: int | None = None) -> None:
        """Elect another leader in sync. It may lack what was not replicated."""
        others = [n for n in self.nodes_up if n != partition.leader]
        leader = to if to is not None else self.rng.choice(others or self.nodes_up or [NO_LEADER])
        self._elect(partition, leader)

    def lose_leader(self, partition: SimulatedPartition) -> None:
        """No broker leads it for now."""
        self._elect(partition, NO_LEADER)

    def _elect(self, partition: SimulatedPartition, leader: int) -> None:
        log = partition.log
        if leader != NO_LEADER:
            if log.end > log.high and self.rng.random() < 0.5:
                # A batch that was not replicated is missing, with all after it.
                some = [b.base for b in log.from_offset(log.high)]
                end = log.truncate(self.rng.choice(some))
                self.note(f"{self.name} {_name(partition)}: not replicated, cut off at {end}")
                self.on_truncated(partition, end, False)
            partition.replicating = True
            partition.epoch += 1
            log.begin_epoch(partition.epoch)
        old, partition.leader = partition.leader, leader
        self.note(
            f"{self.name} {_name(partition)}: leader {old} -> {leader}, epoch {partition.epoch}, "
            f"end {log.end}"
        )
        partition.answer_waiting(NOT_LEADER_OR_FOLLOWER)
        if leader != NO_LEADER:
            partition.replicate()
        self._publish()
        self._look_again()

    def truncate(self, partition: SimulatedPartition, offset: int) -> None:
        """An unclean election: the leader died, and the log of the new one ends at `offset`, or at
        the batch around it."""
        self.on_truncating(partition)
        before = partition.log.end
        end = partition.log.truncate(offset)
        self.note(f"{self.name} {_name(partition)}: unclean election, {before} -> {end}")
        self.on_truncated(partition, end, True)
        dead = self.brokers.get(partition.leader)
        if dead is not None:
            for connection in list(dead.connections):
                connection.cut(lose_sent=True)
        self.move_leader(partition)

    def stop_broker(self, node_id: int) -> None:
        """It dies; others take over its partitions."""
        broker = self.brokers[node_id]
        self.note(f"{self.name}: broker {node_id} stops")
        broker.stop()
        for partition in self.partitions:
            if partition.leader == node_id:
                if self.nodes_up:
                    self.move_leader(partition)
                else:
                    self.lose_leader(partition)
        self._publish()

    def start_broker(self, node_id: int) -> None:
        self.note(f"{self.name}: broker {node_id} starts")
        self.brokers[node_id].up = True
        for partition in self.partitions:
            if partition.leader == NO_LEADER:
                self.move_leader(partition, node_id)
        self._publish()

    def forget_producers(self, partition: SimulatedPartition) -> None:
        """The producers of the log were idle for too long, or the leader lost their state."""
        self.note(f"{self.name} {_name(partition)}: producers are forgotten")
        partition.log.producers.forget()

    def heal(self) -> None:
        """End everything that is wrong: brokers up, connections fast, leaders there, replicas in
        sync."""
        self.faults = BrokerFaults(no_sessions=self.faults.no_sessions)
        self.connections = NetworkOptions(delay=self.connections.delay)
        for node_id, broker in self.brokers.items():
            if not broker.up:
                self.start_broker(node_id)
            for connection in broker.connections:
                connection.heal(self.connections)
        for partition in self.partitions:
            partition.enough_replicas = True
            if partition.leader == NO_LEADER:
                self.move_leader(partition)
            self.resume_replication(partition)

    # Metadata.

    def _publish(self) -> None:
        present = {
            topic.name: TopicView(topic.id, tuple((p.leader, p.epoch) for p in topic.partitions))
            for topic in self.topics.values()
        }
        self.views.append((self.time.monotonic(), present))

    def _look_again(self) -> None:
        for broker in self.brokers.values():
            broker.look_again()


def _name(partition: SimulatedPartition) -> str:
    return f"{partition.topic}-{partition.number}"
