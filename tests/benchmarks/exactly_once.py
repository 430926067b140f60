"""What exactly-once costs a mirror: the same flow with it and without, in turns, on one pair of
real clusters.

    python -m tests.benchmarks.exactly_once [--flow json] [--records N] [--rounds 4]

Both read committed records. The first round, in which the brokers' JVMs compile, is not counted.
Exit status 1 where the rate with it is below 80 % of that without.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.benchmarks.arena import open_arena
from tests.benchmarks.copying import measure_copy
from tests.benchmarks.flows import FLOWS
from tests.benchmarks.machine import describe_machine
from tests.benchmarks.results import CopyResult
from tests.benchmarks.source_topics import write_topic
from tests.benchmarks.systems import OURS, SYSTEMS, System

GOAL = 0.8
_LOGS = Path(__file__).parents[2] / "build" / "benchmarks"


def _without(alias: str, _codec: str) -> Mapping[str, str]:
    return {f"{alias}.consumer.isolation.level": "read_committed"}


def _with(alias: str, codec: str) -> Mapping[str, str]:
    return {**_without(alias, codec), "target.exactly.once.source.support": "enabled"}


AT_LEAST_ONCE = replace(SYSTEMS[OURS], name="at least once", tuning=_without)
EXACTLY_ONCE = replace(SYSTEMS[OURS], name="exactly once", tuning=_with)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.exactly_once")
    parser.add_argument("--flow", choices=FLOWS, default="json")
    parser.add_argument("--records", type=int, help="default: the flow's own")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args(argv)
    flow = FLOWS[arguments.flow]
    found: dict[str, list[CopyResult]] = {}
    print(describe_machine())
    with open_arena(_LOGS) as arena:
        source = write_topic(arena.source, flow, arguments.records or flow.records)
        topic, records = source.name, source.records
        print(f"{flow.words}, {flow.partitions} partitions: {source.words}", flush=True)
        for turn in range(arguments.rounds + 1):
            order: list[System] = [AT_LEAST_ONCE, EXACTLY_ONCE]
            for system in order if turn % 2 else reversed(order):
                result = measure_copy(
                    arena, flow, topic, records, source.value_bytes, system, turn, None
                )
                if turn:
                    found.setdefault(system.name, []).append(result)
                print(
                    f"  round {turn} {system.name:14} {result.steady_rate:12,.0f} records/s"
                    f" {result.cpu_us_per_record:6.2f} µs CPU/record {result.rss_mib:5,.0f} MiB;"
                    f" cores: mirror {result.mirror_cores:.2f}, brokers {result.broker_cores:.2f},"
                    f" others {result.other_cores:.2f}",
                    flush=True,
                )
    rates = {name: median(each.steady_rate for each in results) for name, results in found.items()}
    share = rates[EXACTLY_ONCE.name] / rates[AT_LEAST_ONCE.name]
    print(f"medians: exactly once runs at {share:.0%} of the rate of at least once")
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
