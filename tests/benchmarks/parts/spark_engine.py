"""Prints what copying on Spark costs, beside the worker, a backfill and plain Spark. Not a test.

    python -m tests.benchmarks.parts.spark_engine [--records N] [--rounds N] [--only LIST]

All copy the same topic, in turns: JSON in 64 KB batches, lz4, four partitions. Another one comes
first in each round, the first round is dropped, and the contents of each copy are compared with the
source's, unless they are to differ. Rates and CPU are those between a tenth and nine tenths of the
records, so that Spark's start is not in them; CPU is that of all processes: driver, executors,
their Python. `live` in --only: the latency of live records while the same mirror catches up with
--catch-up records. The tables are for docs/contributing/spark-figures.md. Nothing else should run
on the machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TypeVar

from connect.errors import ConnectError
from deploy.brokers import DeployError
from tests.benchmarks.arena import Arena, delete_topics, open_arena
from tests.benchmarks.contents import digest
from tests.benchmarks.copying import measure_copy
from tests.benchmarks.flows import FLOWS
from tests.benchmarks.latency import Pace, measure_behind
from tests.benchmarks.machine import describe_machine
from tests.benchmarks.results import CopyResult, LatencyResult
from tests.benchmarks.source_topics import write_topic
from tests.benchmarks.spark_systems import (
    BACKFILL,
    PLAIN,
    PLAIN_TUNED,
    SPARK,
    SPARK_FIELD,
    SPARK_SELECT,
    WORKER,
    WORKER_FIELD,
    SparkSystems,
    spark_systems,
)
from tests.benchmarks.systems import System, rotated

_Result = TypeVar("_Result")

LIVE = "live"
_NAMES = (
    WORKER,
    SPARK,
    SPARK_SELECT,
    WORKER_FIELD,
    SPARK_FIELD,
    BACKFILL,
    PLAIN,
    PLAIN_TUNED,
    LIVE,
)
LOGS = Path("build/bench-spark-engine")
FLOW = FLOWS["json-lz4"]
_FILL_S = 900.0
_LIVE_PACE = Pace(rate=100, warm_up_s=1, counted_s=120)
"""Catching up ends it; a rate at which nothing queues up by itself."""


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.parts.spark_engine",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("--records", type=int, default=2_000_000, help="of each copy (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="that count (%(default)s); one more is dropped"
    )
    parser.add_argument("--cores", type=int, default=2, help="of local[...] (%(default)s)")
    parser.add_argument(
        "--executors", default="1,2,4", metavar="LIST", help="of one core each (%(default)s)"
    )
    parser.add_argument(
        "--catch-up", type=int, default=16_000_000, metavar="N", help="records beside live ones"
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="LIST",
        help=f"of {','.join(_NAMES)},cluster-N (all)",
    )
    return parser.parse_args(argv)


def _fill(arena: Arena, name: str, records: int) -> tuple[str, int, float]:
    """A full topic: its name, its records and the mean size of a value."""
    source = write_topic(arena.source, replace(FLOW, name=name), records, _FILL_S)
    return source.name, source.records, source.value_bytes


def _in_turns(
    systems: Sequence[System], rounds: int, measure: Callable[[System, int], _Result]
) -> dict[str, list[_Result]]:
    found: dict[str, list[_Result]] = {system.name: [] for system in systems}
    for turn in range(rounds + 1):
        for system in rotated(systems, turn):
            result = measure(system, turn)
            if turn:
                found[system.name].append(result)
    return found


def _copies(
    arena: Arena, on: SparkSystems, systems: Sequence[System], records: int, rounds: int
) -> None:
    topic, filled, value_bytes = _fill(arena, "engines", records)
    contents = {
        times: digest(arena.source, topic, FLOW.partitions, filled, times=times)
        for times in {system.keeps_times for system in systems}
    }

    def measure(system: System, turn: int) -> CopyResult:
        on.wait_idle()
        wanted = contents[system.keeps_times] if system.keeps_values else None
        result = measure_copy(arena, FLOW, topic, filled, value_bytes, system, turn, wanted)
        _say(
            f"round {turn}{'' if turn else ' (dropped)'} {system.name:11} "
            f"{result.steady_rate:11,.0f} records/s, {result.cpu_us_per_record:.2f} µs of CPU "
            f"each, {result.rss_mib:,.0f} MiB, first record after {result.first_record_s:.1f} s, "
            f"stopped in {result.stop_s:.1f} s, {result.extra_records} copied twice, "
            f"{'verified' if result.verified else 'NOT VERIFIED'}"
        )
        return result

    found = _in_turns(systems, rounds, measure)
    _say(
        f"\n{filled:,} records of {value_bytes:.0f} bytes; medians of {rounds} rounds, "
        "with the lowest and highest:\n\n"
        "| | records/s | × worker | µs of CPU per record | MiB, at most | first record after, s |"
        "\n|---|---|---|---|---|---|"
    )
    base = [each.steady_rate for each in found.get(WORKER, ())]
    for system in systems:
        results = found[system.name]
        rates = [each.steady_rate for each in results]
        share = f"{median(rates) / median(base):.2f}" if base else ""
        _say(
            f"| {system.words} | {_spread(rates, ',.0f')} | {share} "
            f"| {_spread([each.cpu_us_per_record for each in results], '.2f')} "
            f"| {max(each.rss_mib for each in results):,.0f} "
            f"| {_spread([each.first_record_s for each in results], '.1f')} |"
        )
    twice = sum(each.extra_records for results in found.values() for each in results)
    unseen = sum(not each.verified for results in found.values() for each in results)
    _say(f"\n{twice} records were copied twice; {unseen} copies were not verified.")
    delete_topics(arena.source, {topic})


def _live(arena: Arena, systems: Sequence[System], records: int, rounds: int) -> None:
    topic, filled, value_bytes = _fill(arena, "catch-up", records)

    def measure(system: System, turn: int) -> LatencyResult:
        _, found = measure_behind(arena, system, _LIVE_PACE, topic, FLOW.partitions, filled, turn)
        _say(
            f"live: round {turn}{'' if turn else ' (dropped)'} {system.name:11} "
            f"p50 {found.p50_ms:.1f} ms, p99 {found.p99_ms:.1f} ms of {found.records} records"
        )
        return found

    found = _in_turns(systems, rounds, measure)
    _say(
        f"\n{_LIVE_PACE.rate} live records a second while {filled:,} records of "
        f"{value_bytes:.0f} bytes are caught up with:\n\n| | live records | p50, ms | p99, ms |"
        "\n|---|---|---|---|"
    )
    for system in systems:
        results = found[system.name]
        _say(
            f"| {system.words} | {sum(each.records for each in results):,} "
            f"| {_spread([each.p50_ms for each in results], '.1f')} "
            f"| {_spread([each.p99_ms for each in results], '.1f')} |"
        )
    delete_topics(arena.source, {topic})


def _spread(values: Sequence[float], form: str) -> str:
    """The median, with the lowest and the highest."""
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def _say(text: str) -> None:
    print(text, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    arguments = _arguments(argv)
    only = [name.strip() for name in arguments.only.split(",") if name.strip()]
    executors = [int(each) for each in arguments.executors.split(",")]
    unknown = set(only) - {*_NAMES} - {f"cluster-{count}" for count in executors}
    if unknown:
        print(f"--only: there is no {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    for key, value in describe_machine().items():
        _say(f"- {key}: {value}")
    try:
        with open_arena(LOGS) as arena:
            if only != [LIVE]:
                with spark_systems(arguments.cores, executors, only, LOGS) as on:
                    systems = list(on.systems.values())
                    _copies(arena, on, systems, arguments.records, arguments.rounds)
            if LIVE in only or not only:
                with spark_systems(arguments.cores, (), [WORKER, SPARK], LOGS) as on:
                    _live(arena, list(on.systems.values()), arguments.catch_up, arguments.rounds)
    except (ConnectError, DeployError, OSError, RuntimeError, ValueError) as error:
        print(f"bench_spark_engine: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
