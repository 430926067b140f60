"""Prints how long the decisions take for very many partitions: the engine's shards, an audit's
ranges, and all pieces of a backfill. No brokers, no Spark, one thread. Not a test.

Run: python -m tests.benchmarks.parts.planning [partitions]
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable

from connect.protocol.messages import TopicPartition
from connectors.mirror.audit.engines import shares
from connectors.mirror.audit.plan import AuditRange, PartitionFacts, plan_ranges
from connectors.mirror.backfill.scheduler import (
    BackfillScheduler,
    ChunkProgress,
    PartitionJob,
    SchedulerOptions,
)
from connectors.mirror.copy.range_copier import RangeProgress
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.partition import SparkPartition
from connectors.mirror.spark.copy.shard_plan import Shard

PARTITIONS = 100_000
SLOTS = 64
TURNS = 1000
"""As many shards as 64 slots copy in half a minute."""
FEW = 10
IN_TOPIC = 100
OFFSET_BYTES = 100
PIECE_BYTES = 256_000_000


def partition(n: int, prefix: str = "") -> TopicPartition:
    return f"{prefix}t{n // IN_TOPIC}", n % IN_TOPIC


def offsets(n: int) -> int:
    """Uneven, the same in each run: from one to a million, 250,000 on average."""
    return max(1, (n * 7919 % 1000) ** 3 // 1000)


def board(count: int, lagging: int) -> PartitionBoard:
    """The engine's partitions; so many of them have something to copy."""
    made = PartitionBoard()
    for n in range(count):
        metrics = PartitionMetrics("A", "B", *partition(n, "A."))
        each = SparkPartition(partition(n), partition(n, "A."), metrics)
        each.position, each.end = 0, offsets(n) if n < lagging else 0
        made.add(each)
    return made


def next_shards(made: PartitionBoard) -> str:
    """One for each slot, all at once."""
    shards = [made.take_shard(SLOTS, 0.0) for _ in range(SLOTS)]
    return f"{sum(shard is not None for shard in shards)} shards"


def dealt(made: PartitionBoard) -> str:
    """One shard after another comes back, and the next goes out."""
    flying: deque[Shard] = deque()
    for _ in range(TURNS):
        while len(flying) < SLOTS and (shard := made.take_shard(SLOTS, 0.0)) is not None:
            flying.append(shard)
        for each in flying.popleft().ranges:
            made.reached(RangeProgress(each, each.start + 1, 1, 0, None, 1), 0.0, 0)
    return f"{TURNS} shards"


def audit_ranges(count: int) -> str:
    ranges: list[AuditRange] = []
    for n in range(count):
        end = offsets(n)
        facts = PartitionFacts(
            partition(n), partition(n, "A."), 0, end, 0, end, end, offset_bytes=OFFSET_BYTES
        )
        ranges += plan_ranges(facts, [MapPage(1, [Segment(0, 0, end)])])
    return f"{len(ranges)} ranges in {len(shares(ranges, SLOTS))} tasks"


def backfill_pieces(count: int) -> str:
    """From the first piece to the last: those that are under way end one after the other."""
    jobs = [
        PartitionJob(
            partition(n), partition(n, "A."), 0, offsets(n), 0, OFFSET_BYTES, loss_at_ms=offsets(n)
        )
        for n in range(count)
    ]
    dealer = BackfillScheduler.of(jobs, SchedulerOptions(PIECE_BYTES, 10.0))
    pieces = []
    while not dealer.finished:
        while (piece := dealer.next_piece(0.0, SLOTS)) is not None:
            pieces.append(piece)
        done = pieces[-dealer.active]
        dealer.copied(done, [ChunkProgress(each.source, each.end) for each in done.ranges], 0.0)
    return f"{len(pieces)} pieces"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    all_lag, few_lag = board(count, count), board(count, FEW)
    works: dict[str, Callable[[], str]] = {
        "the engine's next shards, all partitions lag": lambda: next_shards(all_lag),
        f"the engine's shards and their results, {FEW} partitions lag": lambda: dealt(few_lag),
        "an audit's ranges": lambda: audit_ranges(count),
        "all pieces of a backfill": lambda: backfill_pieces(count),
    }
    print(f"{count:,} partitions, {SLOTS} slots")
    print("| planned | seconds | CPU s | |\n|---|---|---|---|")
    for name, work in works.items():
        began, cpu = time.perf_counter(), time.process_time()
        found = work()
        took, used = time.perf_counter() - began, time.process_time() - cpu
        print(f"| {name} | {took:.2f} | {used:.2f} | {found} |", flush=True)


if __name__ == "__main__":
    main()
