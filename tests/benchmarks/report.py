"""What was measured, as tables: in the terminal, in docs/explanation/performance.md, and the goals
in docs/contributing/goals.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.benchmarks.flows import FLOWS
from tests.benchmarks.latency import BEHIND, BUSY, NO_MIRROR, QUIET
from tests.benchmarks.results import CopyResult, LatencyResult, Results
from tests.benchmarks.systems import JAVA, JAVA_TUNED, OURS, SYSTEMS

__all__ = ["Goal", "as_markdown", "as_text", "goals", "goals_as_markdown", "update_page"]

FIGURES, GOALS = "benchmark", "goals"

CPU_GOALS, SMALL_CPU_GOAL_US = {JAVA: 25.0, JAVA_TUNED: 10.0}, 2.0
LAUNCH_GOALS = {JAVA: 6.0, JAVA_TUNED: 4.0}
_RATE_GOALS = {
    "shallow": LAUNCH_GOALS,
    "small": {JAVA: 2.0, JAVA_TUNED: 2.0},
    "not slower": {JAVA: 1.0, JAVA_TUNED: 1.0},
}
RSS_GOAL_MB = 120.0
P50_GOAL = 5.0
P99_GOAL_MS = 3.0
"""How much longer the p99 may be than that of a consumer of the source in the same run."""
BUSY_GOAL_MS = 3.0
START_GOAL_S = 1.5
IDLE_GOAL_PERCENT = 2.0

_MB = 1_000_000
_MIB = 1024 * 1024


class Goal(NamedTuple):
    """One goal and what came out."""

    what: str
    wanted: str
    measured: str
    met: bool


class Table(NamedTuple):
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class _Mean(NamedTuple):
    """The median of a flow's rounds by one system."""

    rate: float
    slowest: float
    fastest: float
    launch_rate: float
    value_mb: float
    cpu_us: float
    mirror_cores: float
    broker_cores: float
    rss_mb: float
    first_record_s: float
    cpu_s: float


def _median(rows: Sequence[CopyResult]) -> _Mean:
    def of(read: Callable[[CopyResult], float]) -> float:
        return median(map(read, rows))

    return _Mean(
        of(lambda r: r.steady_rate),
        min(r.steady_rate for r in rows),
        max(r.steady_rate for r in rows),
        of(lambda r: r.launch_rate),
        of(lambda r: r.steady_rate * r.value_bytes / _MB),
        of(lambda r: r.cpu_us_per_record),
        of(lambda r: r.mirror_cores),
        of(lambda r: r.broker_cores),
        max(r.rss_mib for r in rows) * _MIB / _MB,
        of(lambda r: r.first_record_s),
        of(lambda r: r.cpu_s),
    )


def _by_flow(results: Results) -> dict[str, dict[str, _Mean]]:
    found: dict[str, dict[str, _Mean]] = {}
    for flow in FLOWS:
        rows = [row for row in results.copies if row.flow == flow]
        systems = {
            name: _median([row for row in rows if row.system == name])
            for name in SYSTEMS
            if any(row.system == name for row in rows)
        }
        if systems:
            found[flow] = systems
    return found


def _javas(systems: dict[str, _Mean]) -> dict[str, _Mean]:
    return {name: systems[name] for name in (JAVA, JAVA_TUNED) if name in systems}


def _times(value: float) -> str:
    return f"{value:.1f}×" if value < 10 else f"{value:.0f}×"


def _ratios(
    systems: dict[str, _Mean], system: str, ratio: Callable[[_Mean, _Mean], float]
) -> list[str]:
    """One cell for each of Java's configurations; empty in Java's own rows."""
    return [
        _times(ratio(systems[java], systems[OURS])) if system == OURS and java in systems else ""
        for java in (JAVA, JAVA_TUNED)
    ]


def _rate_ratio(java: _Mean, ours: _Mean) -> float:
    return ours.rate / java.rate


def _launch_ratio(java: _Mean, ours: _Mean) -> float:
    return ours.launch_rate / java.launch_rate


def _cpu_ratio(java: _Mean, ours: _Mean) -> float:
    return java.cpu_us / ours.cpu_us


def _copy_table(results: Results) -> Table:
    rows = []
    for name, systems in _by_flow(results).items():
        for system, mean in systems.items():
            rows.append(
                [
                    FLOWS[name].words if system == next(iter(systems)) else "",
                    system,
                    f"{mean.rate / 1000:,.0f} k",
                    f"{mean.slowest / 1000:,.0f} to {mean.fastest / 1000:,.0f} k",
                    f"{mean.value_mb:.0f}",
                    *_ratios(systems, system, _rate_ratio),
                    f"{mean.launch_rate / 1000:,.0f} k",
                    *_ratios(systems, system, _launch_ratio),
                    f"{mean.cpu_us:.2f}",
                    *_ratios(systems, system, _cpu_ratio),
                    f"{mean.rss_mb:,.0f}",
                    f"{mean.first_record_s:.1f}",
                    f"{mean.mirror_cores:.2f}",
                    f"{mean.broker_cores:.2f}",
                ]
            )
    head = (
        "flow", "system", "records/s", "spread", "MB/s", "× java", "× tuned", "from launch",
        "× java", "× tuned", "CPU µs/record", "java ÷", "tuned ÷", "RSS MB", "first record s",
        "mirror cores", "broker cores",
    )  # fmt: skip
    return Table("Copying a topic that is full", head, rows)


def _latency_table(results: Results) -> Table | None:
    if not results.latencies:
        return None
    rows = []
    names = dict.fromkeys([NO_MIRROR, *SYSTEMS, *(row.system for row in results.latencies)])
    for name in names:
        found = [row for row in results.latencies if row.system == name]
        if found:
            rows.append(
                [
                    _latency_words(name),
                    *(
                        f"{median(values):.2f}"
                        for values in (
                            [r.p50_ms for r in found],
                            [r.p99_ms for r in found],
                            [r.p999_ms for r in found],
                        )
                    ),
                    f"{median(r.mirror_cores for r in found) * 100:.0f} %",
                ]
            )
    rate = results.latencies[0].rate
    return Table(
        f"End-to-end latency in ms, {rate:,} records/s, one partition",
        ("system", "p50", "p99", "p99.9", "CPU of the mirror"),
        rows,
    )


def _latency_words(system: str) -> str:
    if system == NO_MIRROR:
        return "no mirror: the source itself"
    beside = system.removeprefix(f"{NO_MIRROR}-")
    return system if beside == system else f"the source itself, beside {beside}"


def _start_table(results: Results) -> Table | None:
    rows = [
        [name, f"{median(found):.2f}", f"{max(found):.2f}"]
        for name in SYSTEMS
        if (found := [row.first_record_s for row in results.starts if row.system == name])
    ]
    title = "Launch to first record, in seconds"
    return Table(title, ("system", "median", "slowest"), rows) if rows else None


def _idle_table(results: Results) -> Table | None:
    rows = [
        [
            row.system,
            f"{row.partitions:,}",
            f"{row.percent_of_core:.1f} %",
            f"{row.rss_mib * _MIB / _MB:.0f}",
            f"{row.ready_s:.0f}",
        ]
        for row in results.idles
    ]
    head = ("system", "partitions", "of a core", "RSS MB", "all copied after s")
    return Table("Idle partitions", head, rows) if rows else None


def goals(results: Results) -> list[Goal]:
    """The goals that these results can be held against."""
    found = [*_copy_goals(results), *_latency_goals(results)]
    if starts := [row.first_record_s for row in results.starts if row.system == OURS]:
        worst = max(starts)
        found.append(
            Goal("start", f"≤ {START_GOAL_S:g} s", f"{worst:.2f} s", worst <= START_GOAL_S)
        )
    for row in results.idles:
        if row.system == OURS:
            share = row.percent_of_core
            found.append(
                Goal(
                    f"{row.partitions:,} idle partitions",
                    f"≤ {IDLE_GOAL_PERCENT:g} % of a core",
                    f"{share:.1f} %",
                    share <= IDLE_GOAL_PERCENT,
                )
            )
    return found


def _at_least(what: str, wanted: float, ratio: float) -> Goal:
    return Goal(what, f"≥ {wanted:g}×", f"{ratio:.2f}×", ratio >= wanted)


def _copy_goals(results: Results) -> Iterable[Goal]:
    flows = _by_flow(results)
    for name, systems in flows.items():
        shallow = FLOWS[name].goal == "shallow"
        for java, mean in _javas(systems).items() if OURS in systems else ():
            rate = _rate_ratio(mean, systems[OURS])
            wanted = _RATE_GOALS.get(FLOWS[name].goal)
            if FLOWS[name].plain:
                from_launch = _launch_ratio(mean, systems[OURS])
                what = f"{name}: rate from launch, to {java}"
                yield _at_least(what, LAUNCH_GOALS[java], from_launch)
            elif wanted is not None:
                yield _at_least(f"{name}: rate, to {java}", wanted[java], rate)
            if shallow:
                cpu = _cpu_ratio(mean, systems[OURS])
                what = f"{name}: less CPU per record than {java}"
                yield _at_least(what, CPU_GOALS[java], cpu)
        if FLOWS[name].goal == "small" and OURS in systems:
            cpu = systems[OURS].cpu_us
            met = cpu <= SMALL_CPU_GOAL_US
            yield Goal(
                f"{name}: CPU per record", f"≤ {SMALL_CPU_GOAL_US:g} µs", f"{cpu:.2f} µs", met
            )
    worst = max((systems[OURS].rss_mb for systems in flows.values() if OURS in systems), default=0)
    if worst:
        measured = f"{worst:.0f} MB at most"
        yield Goal("memory of a worker", f"≤ {RSS_GOAL_MB:g} MB", measured, worst <= RSS_GOAL_MB)


def _latency_goals(results: Results) -> Iterable[Goal]:
    yield from _beside_source(results, "latency", NO_MIRROR, JAVA, OURS)
    yield from _beside_source(
        results,
        "latency beside a catch-up",
        f"{NO_MIRROR}-{OURS}{BEHIND}",
        f"{JAVA}{BEHIND}",
        f"{OURS}{BEHIND}",
    )
    quiet = [row.p99_ms for row in results.latencies if row.system == OURS + QUIET]
    busy = [row.p99_ms for row in results.latencies if row.system == OURS + BUSY]
    if quiet and busy:
        more = median(busy) - median(quiet)
        yield Goal(
            "latency p99: longer beside busy threads",
            f"≤ {BUSY_GOAL_MS:g} ms",
            f"{more:.2f} ms",
            more <= BUSY_GOAL_MS,
        )


def _beside_source(
    results: Results, what: str, source: str, java: str, ours: str
) -> Iterable[Goal]:
    """The median beside Java's, and the p99 beside that of a consumer of the source."""

    def rows(system: str) -> list[LatencyResult]:
        return [row for row in results.latencies if row.system == system]

    mine = rows(ours)
    if mine and (javas := rows(java)):
        p50 = median(r.p50_ms for r in javas) / median(r.p50_ms for r in mine)
        yield _at_least(f"{what}: p50, shorter than {java}", P50_GOAL, p50)
    if mine and (at_source := rows(source)):
        more = median(r.p99_ms for r in mine) - median(r.p99_ms for r in at_source)
        yield Goal(
            f"{what}: p99, longer than the source's own",
            f"≤ {P99_GOAL_MS:g} ms",
            f"{more:.2f} ms",
            more <= P99_GOAL_MS,
        )


def _figures(results: Results) -> list[Table]:
    twice = [row for row in results.copies if row.extra_records]
    tables = [
        _copy_table(results) if results.copies else None,
        _latency_table(results),
        _start_table(results),
        _idle_table(results),
        Table(
            "Copied more than once",
            ("flow", "system", "round", "records"),
            [[row.flow, row.system, str(row.round), f"{row.extra_records:,}"] for row in twice],
        )
        if twice
        else None,
    ]
    return [table for table in tables if table is not None]


def _goal_table(results: Results) -> list[Table]:
    rows = [
        [goal.what, goal.wanted, goal.measured, "met" if goal.met else "not met"]
        for goal in goals(results)
    ]
    return [Table("Goals", ("what", "goal", "measured", ""), rows)] if rows else []


def _notes(results: Results) -> list[str]:
    used = {
        *(row.system for row in results.copies),
        *(row.system for row in results.latencies),
        *(row.system for row in results.starts),
    }
    rounds = max((row.round for row in results.copies), default=0)
    verified = sum(row.verified for row in results.copies)
    return [
        *(f"{key}: {value}" for key, value in results.machine.items()),
        *(f"{name}: {system.words}" for name, system in SYSTEMS.items() if name in used),
        f"Figures are medians of {rounds} interleaved rounds; memory is the most that was seen. "
        "MB/s counts record values; the spread is that of records/s.",
        f"The contents of {verified} of {len(results.copies)} copies were compared with those of "
        "the source.",
    ]


def as_text(results: Results) -> str:
    """For a terminal."""
    lines = [*_notes(results)]
    for title, head, rows in [*_figures(results), *_goal_table(results)]:
        cells = [list(head), *map(list, rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
        lines += ["", title, ""]
        for number, row in enumerate(cells):
            lines.append("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
            if not number:
                lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines) + "\n"


def as_markdown(results: Results) -> str:
    """The figures, for docs/explanation/performance.md."""
    return (
        "\n".join([*(f"- {note}" for note in _notes(results)), *_lines(_figures(results))]) + "\n"
    )


def goals_as_markdown(results: Results) -> str:
    """The goals, for docs/contributing/goals.md."""
    return "\n".join(_lines(_goal_table(results))[1:]) + "\n"


def _lines(tables: Iterable[Table]) -> list[str]:
    lines = []
    for title, head, rows in tables:
        lines += ["", f"### {title}", "", _row(head), _row(["---"] * len(head))]
        lines += [_row(row) for row in rows]
    return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def update_page(page: Path, results: Results) -> None:
    """Replace what stands between the markers of a page: the figures between those of `FIGURES`,
    the goals between those of `GOALS`. Raises `ValueError` for a page without markers."""
    text = page.read_text()
    contents = {FIGURES: as_markdown(results), GOALS: goals_as_markdown(results)}
    found = False
    for name, content in contents.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, has_begin, rest = text.partition(begin)
        _, has_end, after = rest.partition(end)
        if has_begin and has_end:
            text, found = f"{before}{begin}\n{content}{end}{after}", True
    if not found:
        raise ValueError(f"{page} has no <!-- {FIGURES}: begin --> and end, nor those of {GOALS}")
    page.write_text(text)
