"""A connection to the target that breaks while a fetch response is handled moves no partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, cast

import pytest

from connect.clients.cluster.metadata import ClusterSnapshot
from connect.clients.config.settings import FetchSettings
from connect.clients.wire.selector_loop import SelectorLoop
from connect.protocol.messages import FetchedPartition, FetchResponse, TopicPartition
from connect.protocol.records import Record
from connectors.mirror.copy.brokers.source import SourceNode
from connectors.mirror.copy.dispatcher import Dispatcher
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from tests.support.copier import partition_invariants
from tests.support.fake_clock import FakeClock
from tests.support.records.batches import encode_batch
from tests.unit.connectors.mirror.copy.asked_cluster import AskedCluster
from tests.unit.connectors.mirror.copy.contexts import context
from tests.unit.connectors.mirror.copy.scripted_target import Fate, Log, ScriptedTarget

SOURCE_BROKER, TARGET_BROKER = 9, 1
KEYS: list[TopicPartition] = [("source", 0), ("source", 1)]


class Source:
    """The fetch session of the source's only broker."""

    node_id = SOURCE_BROKER
    held = 0
    by_id = False
    silent_since = waits_since = None
    arriving_at = throttled_at = float("-inf")

    def __init__(self) -> None:
        self.asked: dict[TopicPartition, int] = {}

    def look_for_bytes(self) -> None:
        """None arrive by themselves."""

    def want(self, partition: PartitionCopy) -> None:
        """Nothing is fetched by itself."""

    drop = want

    def answers(self, partition: PartitionCopy) -> bool:
        return self.asked.get(partition.source) == partition.position

    def pump(self) -> None:
        """Nothing is sent."""

    def check_deadline(self, now: float) -> None:
        """It is never late."""


class Bench:
    """Fetch and produce handlers of two partitions, both led by one broker of the target."""

    def __init__(self) -> None:
        self.target = ScriptedTarget({("copy", 0): Log(), ("copy", 1): Log()})
        leaders = {("copy", n): (TARGET_BROKER, 0) for n in (0, 1)}
        self.target.snapshot = ClusterSnapshot(
            version=1,
            nodes=MappingProxyType({TARGET_BROKER: ("b", 1)}),
            leaders=MappingProxyType(leaders),
        )
        source = AskedCluster()
        source.snapshot = ClusterSnapshot(
            version=1,
            nodes=MappingProxyType({SOURCE_BROKER: ("s", 9)}),
            leaders=MappingProxyType(dict.fromkeys(KEYS, (SOURCE_BROKER, 0))),
        )
        self.clock = FakeClock()
        self.loop = SelectorLoop(self.clock)
        self.source = Source()
        self.acked: list[int] = []
        self.context = context(
            self.loop,
            self.clock,
            source,
            self.target,
            self._acked,
            fetch=FetchSettings(max_partition_fetch_bytes=1000),
            buffer_bytes=64 << 20,
        )
        self.partitions = self.context.partitions
        self.dispatcher = Dispatcher(self.context, None, None)
        routing = self.dispatcher.routing
        routing.sources[SOURCE_BROKER, False] = cast("SourceNode", self.source)
        for key in KEYS:
            made = PartitionCopy(key, ("copy", key[1]), PartitionMetrics("s", "t", "copy", key[1]))
            made.begin_at(0)
            self.partitions[key] = made
            self.dispatcher.producers.equip(made)
            routing.place(made)
        self.turn()

    def _acked(self, partition: PartitionCopy, runs: Sequence[OffsetRun], base: int) -> None:
        if partition.source == KEYS[1]:
            self.acked += [offset for first, n in runs for offset in range(first, first + n)]

    def turn(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        for _ in range(4):
            self.loop.turn(0.0)
        for partition in self.partitions.values():
            partition_invariants.check(partition)

    def fetch(self, *wanted: PartitionCopy, batches: int = 1) -> None:
        """One fetch response with batches of ten records for each of these partitions."""
        found, buffer, sizes = [], bytearray(), []
        for partition in wanted:
            self.source.asked[partition.source] = at = partition.position
            data = b"".join(_batch(at + 10 * n) for n in range(batches))
            buffer += data
            sizes.append(len(data))
        start = 0
        for partition, size in zip(wanted, sizes, strict=True):
            records = memoryview(buffer)[start : start + size]
            end = partition.position + 10 * batches
            found.append(FetchedPartition(*partition.source, 0, end, end, 0, (), -1, records))
            start += size
        held = FetchBuffer(self.context.budget, buffer, held=True)
        response = FetchResponse(0, 0, 1, found)
        self.dispatcher.on_fetched(cast("SourceNode", self.source), response, held)
        held.release()

    def serve(self) -> None:
        for _ in range(6):
            self.turn(1.0)
            while self.target.handle(TARGET_BROKER, Fate.TAKEN):
                self.turn()

    def reset_connection(self) -> None:
        """The loop has not looked at the connection yet when something is sent on it."""
        cast("Any", self.target)._ends.pop(TARGET_BROKER).close()

    def close(self) -> None:
        for node in self.dispatcher.routing.targets.values():
            node.close()
        self.target.close_all()
        self.loop.close()


def _batch(first: int) -> bytes:
    pad = (("pad", b"x" * 300),)
    return bytes(
        encode_batch(
            [Record(first + n, 1, None, b"%d" % (first + n), pad) for n in range(10)],
            base_offset=first,
        )
    )


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_a_connection_that_breaks_under_a_fetch_response_reorders_nothing(bench: Bench) -> None:
    """Finding 2: the first partition's batch was sent in the middle of the response, the second
    partition lost its place, and its next batches were queued behind a hole."""
    first, second = (bench.partitions[key] for key in KEYS)
    bench.fetch(second, batches=3)
    bench.turn()
    bench.reset_connection()
    bench.fetch(first, second)
    bench.serve()
    for _ in range(3):
        bench.fetch(second)
        bench.serve()
    records = bench.target.logs["copy", 1].records
    assert records == list(range(len(records)))
    assert bench.acked == records
    assert second.acked_position == len(records) >= 40


def test_one_that_is_far_behind_is_known_by_what_a_response_leaves(bench: Bench) -> None:
    """The bench's partitions request at most 1,000 bytes, of which the session of new records
    allows a sixteenth."""
    partition = bench.partitions[KEYS[0]]
    see = bench.dispatcher._fetches._see_how_far_behind
    partition.acked_position, partition.high_watermark = 10, 12
    see(partition, 1000, 10)
    assert not partition.far_behind, "what is left is two more fetches"
    partition.high_watermark = 1_000
    see(partition, 1000, 10)
    assert partition.far_behind
    partition.acked_position = 1_000
    see(partition, 1000, 10)
    assert partition.far_behind, "it is at its end, but much has come at once"
    see(partition, 30, 1)
    assert not partition.far_behind
