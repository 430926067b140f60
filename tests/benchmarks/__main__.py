"""Rates, CPU, memory and latency of this mirror beside Java's MirrorMaker 2, on the same brokers.

    python -m tests.benchmarks [--quick] [--flows json,latency] [--json FILE] [--markdown FILE]

The systems take turns on a fresh pair of real clusters; nothing else should run on the machine. Who
comes first rotates, the first round is dropped, and the contents of each copy are compared with the
source's. It takes hours; `--quick` is one round and takes about three minutes. Exit status 0 also
where goals are missed: the figures are the result.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from connect.errors import ConnectError
from deploy.brokers import DeployError
from tests.benchmarks.arena import (
    FAR_S,
    Arena,
    delete_topics,
    open_arena,
    open_far_arena,
)
from tests.benchmarks.contents import digest
from tests.benchmarks.copying import measure_copy
from tests.benchmarks.flows import FLOWS, QUICK_FLOWS, Flow
from tests.benchmarks.idle import measure_idle
from tests.benchmarks.latency import (
    QUIET,
    Pace,
    measure_behind,
    measure_busy,
    measure_direct,
    measure_latency,
    measure_start,
)
from tests.benchmarks.machine import describe_machine
from tests.benchmarks.payloads import JSON_BYTES
from tests.benchmarks.report import as_text, update_page
from tests.benchmarks.results import LatencyResult, Results
from tests.benchmarks.source_topics import write_topic
from tests.benchmarks.systems import (
    JAVA,
    JAVA_TUNED,
    OURS,
    SYSTEMS,
    USUAL_SYSTEMS,
    System,
    rotated,
    with_tasks,
)
from tests.runs.counts import note
from tests.support.copier.long_link import LongLink

LATENCY, BUSY, BEHIND, START, IDLE = (
    "latency",
    "latency-busy",
    "latency-behind",
    "start",
    "idle",
)
EVERYTHING = (*FLOWS, LATENCY, BUSY, BEHIND, START, IDLE)
QUICK = (*QUICK_FLOWS, LATENCY, START)
_ROOT = Path(__file__).parents[2]
PAGES = (
    _ROOT / "docs/explanation/performance.md",
    _ROOT / "docs/contributing/goals.md",
)
_LOGS = _ROOT / "build" / "benchmarks"
_QUICK_PACE = Pace(warm_up_s=5, counted_s=10)
_BEHIND_PACE = Pace(warm_up_s=1, counted_s=30)
_BEHIND_BYTES, _BEHIND_QUICK_BYTES = 10_000_000_000, 2_000_000_000
"""What is caught up with beside live records."""


def _list(allowed: Sequence[str], text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in allowed:
            raise argparse.ArgumentTypeError(f"{name}: choose from {', '.join(allowed)}")
    return chosen


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--flows",
        type=lambda text: _list(EVERYTHING, text),
        metavar="LIST",
        help=f"of {','.join(EVERYTHING)} (default: all)",
    )
    parser.add_argument(
        "--systems",
        type=lambda text: _list(tuple(SYSTEMS), text),
        metavar="LIST",
        help=f"of {','.join(SYSTEMS)} (default: {','.join(USUAL_SYSTEMS)})",
    )
    parser.add_argument(
        "--tasks-max",
        type=_numbers,
        default=[],
        metavar="LIST",
        help="run every system with each of these tasks.max in turn (default: 2)",
    )
    parser.add_argument("--records", type=int, help="records of each flow (default: its own)")
    parser.add_argument(
        "--rounds",
        type=int,
        help="turns of every system that count (default: 5; one more comes first, and is dropped)",
    )
    parser.add_argument("--quick", action="store_true", help="a short form, within 3 minutes")
    parser.add_argument("--idle-partitions", type=int, default=10_000, metavar="N")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep the figures; other flows' stay in the file"
    )
    parser.add_argument(
        "--markdown",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="put the tables between the markers of pages (default: "
        f"{' and '.join(str(page.relative_to(_ROOT)) for page in PAGES)})",
    )
    parser.add_argument(
        "--report", action="store_true", help="measure nothing: show what --json FILE holds"
    )
    return parser.parse_args(argv)


class Bench:
    """What to run, and what came out so far."""

    def __init__(self, arguments: argparse.Namespace, path: Path | None) -> None:
        quick: bool = arguments.quick
        self.results = Results(machine=describe_machine())
        self._quick = quick
        self._names: list[str] = arguments.flows or list(QUICK if quick else EVERYTHING)
        chosen: list[str] = arguments.systems or ([JAVA, OURS] if quick else list(USUAL_SYSTEMS))
        systems = [SYSTEMS[name] for name in chosen]
        counts: list[int] = arguments.tasks_max
        self._systems = [with_tasks(s, n) for n in counts for s in systems] if counts else systems
        self._rounds: int = arguments.rounds or (1 if quick else 5)
        self._records: int | None = arguments.records
        self._idle_partitions: int = arguments.idle_partitions
        self._path = path

    def run(self) -> None:
        older = Results.read(self._path) if self._path and self._path.exists() else Results()
        done: list[str] = []
        far = [name for name in self._names if name in FLOWS and FLOWS[name].far]
        if far and not LongLink.allowed():
            _say(f"{', '.join(far)}: left out, because a long link needs root, ip and /dev/net/tun")
            far = []
        near = [name for name in self._names if name not in FLOWS or not FLOWS[name].far]
        for names, open_clusters in ((near, open_arena), (far, open_far_arena)):
            if names:
                with open_clusters(_LOGS) as arena:
                    for name in names:
                        self._measure(arena, name)
                        done.append(name)
                        if self._path is not None:
                            self.results.merged(older, done).write(self._path)
        self.results = self.results.merged(older, done)

    def _measure(self, arena: Arena, name: str) -> None:
        if name in FLOWS:
            self._copy(arena, FLOWS[name])
        elif name in (LATENCY, BUSY):
            self._latency(arena, measure_busy if name == BUSY else measure_latency)
        elif name == BEHIND:
            self._behind(arena)
        elif name == START:
            self._start(arena)
        else:
            self._idle(arena)

    def _copy(self, arena: Arena, flow: Flow) -> None:
        wanted = self._records or (flow.quick_records if self._quick else flow.records)
        source = write_topic(arena.source, flow, wanted)
        topic, records = source.name, source.records
        _say(f"{flow.name}: {source.words}")
        contents = None
        if not self._quick and not flow.new_values:
            contents = digest(
                arena.source,
                topic,
                flow.partitions,
                records,
                headers=not flow.transforms,
                appended=flow.appended,
            )
        if arena.link is not None:
            arena.link.delay(FAR_S)
        for turn in range(1 if self._quick else 0, self._rounds + 1):
            for system in rotated(self._systems, turn):
                result = measure_copy(
                    arena, flow, topic, records, source.value_bytes, system, turn, contents
                )
                if turn:
                    self.results.copies.append(result)
                _say(
                    f"  round {turn}{'' if turn else ' (dropped)'} {system.name:10} "
                    f"{result.steady_rate:12,.0f} records/s "
                    f"({result.launch_rate:,.0f} from launch) "
                    f"{result.cpu_us_per_record:7.2f} µs CPU/record {result.rss_mib:7,.0f} MiB; "
                    f"cores: mirror {result.mirror_cores:.2f}, brokers {result.broker_cores:.2f}, "
                    f"others {result.other_cores:.2f}; first record {result.first_record_s:.2f} s, "
                    f"stop {result.stop_s:.1f} s"
                    + (f"; {result.extra_records:,} TWICE" if result.extra_records else "")
                )
        if arena.link is not None:
            arena.link.delay(0.0)
        delete_topics(arena.source, {topic})

    def _untuned(self) -> list[System]:
        """Tuning for throughput makes latency worse and a start no faster."""
        return [system for system in self._systems if system.name != JAVA_TUNED]

    def _latency(
        self, arena: Arena, measure: Callable[[Arena, System, Pace, int], LatencyResult]
    ) -> None:
        pace = _QUICK_PACE if self._quick else Pace()
        for turn in range(1, self._rounds + 1):
            measured = [measure_direct(arena, pace, turn)]
            for system in rotated(self._untuned(), turn):
                if measure is measure_latency:
                    measured.append(measure_latency(arena, system, pace, turn))
                elif system.name.startswith(OURS):
                    # Quiet and busy in turns: the machine's other load changes from hour to hour.
                    quiet = replace(system, name=f"{system.name}{QUIET}")
                    measured.append(measure_latency(arena, quiet, pace, turn))
                    measured.append(measure_busy(arena, system, pace, turn))
            self._add_latencies(measured)

    def _behind(self, arena: Arena) -> None:
        """Live records while the same mirror catches up with another topic."""
        flow = FLOWS["json"]
        size = _BEHIND_QUICK_BYTES if self._quick else _BEHIND_BYTES
        wanted = self._records or round(size / JSON_BYTES)
        source = write_topic(arena.source, replace(flow, name="catch-up"), wanted)
        for turn in range(1, self._rounds + 1):
            for system in rotated(self._untuned(), turn):
                self._add_latencies(
                    measure_behind(
                        arena,
                        system,
                        _BEHIND_PACE,
                        source.name,
                        flow.partitions,
                        source.records,
                        turn,
                    )
                )
        delete_topics(arena.source, {source.name})

    def _add_latencies(self, measured: Sequence[LatencyResult]) -> None:
        self.results.latencies += measured
        for found in measured:
            _say(
                f"latency: round {found.round} {found.system:6} p50 {found.p50_ms:.2f} ms, "
                f"p99 {found.p99_ms:.2f} ms, p99.9 {found.p999_ms:.2f} ms of "
                f"{found.records:,} records, {found.mirror_cores * 100:.0f} % of a core"
            )

    def _start(self, arena: Arena) -> None:
        for turn in range(1, self._rounds + 1):
            for system in self._untuned():
                found = measure_start(arena, system, turn)
                self.results.starts.append(found)
                _say(f"start: round {turn} {found.system:6} {found.first_record_s:.2f} s")

    def _idle(self, arena: Arena) -> None:
        for system in self._systems:
            if system.name == OURS:
                found = measure_idle(arena, system, self._idle_partitions)
                self.results.idles.append(found)
                _say(
                    f"idle: {found.partitions:,} partitions, all copied after {found.ready_s:.0f} "
                    f"s, {found.percent_of_core:.1f} % of a core, {found.rss_mib:.0f} MiB"
                )


def _say(text: str) -> None:
    print(text, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    arguments = _arguments(argv)
    try:
        if arguments.report:
            if arguments.json is None:
                raise ValueError("--report shows the figures of --json FILE: name the file")
            results = Results.read(arguments.json)
        else:
            bench = Bench(arguments, arguments.json)
            bench.run()
            results = bench.results
            copies, others = len(results.copies), len(results.latencies) + len(results.starts)
            note({"measurements": copies + others + len(results.idles)})
        print(as_text(results))
        if arguments.markdown is not None:
            for page in arguments.markdown or PAGES:
                update_page(page, results)
    except (ConnectError, DeployError, OSError, RuntimeError, ValueError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
