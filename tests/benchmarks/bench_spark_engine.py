"""Prints how fast a flow is copied on Spark, beside the worker engine in the same run. Not a test.

Run: python -m tests.benchmarks.bench_spark_engine [records] [rounds] [cores]

Both copy the same topic, in turns: 64 KB batches, lz4, four partitions. The rate is that between a
tenth and nine tenths of the records, as in the other benchmarks, so that Spark's start is not in
it. At the end the medians, as a row for docs/contributing/spark-figures.md.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.benchmarks.arena import open_arena
from tests.benchmarks.copying import measure_copy
from tests.benchmarks.filling import fill
from tests.benchmarks.flows import FLOWS
from tests.benchmarks.payloads import make_payload
from tests.benchmarks.results import CopyResult
from tests.benchmarks.systems import OURS, SYSTEMS, System
from tests.support.topics import create_topic

LOGS = Path("build/bench-spark-engine")
FLOW = FLOWS["json-lz4"]


def systems(cores: int) -> tuple[System, System]:
    worker = SYSTEMS[OURS]

    def on_spark(_alias: str, _codec: str) -> dict[str, str]:
        return {"mirror.engine": "spark", "spark.master": f"local[{cores}]"}

    return worker, replace(worker, name="spark", tuning=on_spark)


def show(result: CopyResult) -> None:
    print(
        f"{result.system:>6}: {result.steady_rate:>11,.0f} records/s, "
        f"{result.cpu_us_per_record:.2f} us of CPU each, {result.rss_mib:,.0f} MiB, "
        f"first record after {result.first_record_s:.1f} s, stopped in {result.stop_s:.1f} s, "
        f"{result.extra_records} copied twice",
        flush=True,
    )


def cell(results: list[CopyResult]) -> str:
    rate = median(each.steady_rate for each in results)
    cpu = median(each.cpu_us_per_record for each in results)
    return f"{rate:,.0f} records/s, {cpu:.2f} µs, {max(each.rss_mib for each in results):,.0f} MiB"


def main() -> None:
    given = [int(text) for text in sys.argv[1:]]
    records, rounds, cores = [*given, *(4_000_000, 3, 2)[len(given) :]][:3]
    found: dict[str, list[CopyResult]] = {}
    with open_arena(LOGS) as arena:
        topic = create_topic(arena.source, partitions=FLOW.partitions)
        payload = make_payload(FLOW.kind, FLOW.codec_number, FLOW.batch_bytes)
        filled = fill(arena.source, topic, FLOW.partitions, payload, records, 600)
        for turn in range(rounds):
            for system in systems(cores):
                result = measure_copy(
                    arena, FLOW, topic, filled, payload.value_bytes, system, turn, None
                )
                show(result)
                found.setdefault(system.name, []).append(result)
    rates = {name: median(each.steady_rate for each in results) for name, results in found.items()}
    print(
        f"\n| {filled:,} records, median of {rounds} turns, `local[{cores}]` | {cell(found[OURS])} "
        f"| {cell(found['spark'])} | {rates['spark'] / rates[OURS]:.0%} |"
    )


if __name__ == "__main__":
    main()
