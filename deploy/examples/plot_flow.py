"""Plots the lag of a flow and its throughput, from the mirror's history, and which consumer groups
could fail over now.

    python -m deploy.examples.plot_flow mm2.properties flow.png [A->B]

An example of `connectors.dataframes`: Spark aggregates its tables, and matplotlib (`pip install
matplotlib`, or the dependency group `examples`) draws one line per topic and one bar per group.
`flow.ipynb` does the same in a notebook.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from connect.errors import ConnectError
from connectors.dataframes import MirrorFrames, open_frames
from connectors.spark.arrow import collect

__all__ = ["draw", "lag_by_topic", "main", "readiness_by_group", "throughput_by_topic"]

WINDOW_S = 10

Line = list[tuple[datetime, float]]
"""Points: time and value."""

Readiness = Mapping[str, tuple[int, int]]
"""By group: the partitions that could fail over now, and those that could not."""


def lag_by_topic(frames: MirrorFrames) -> dict[str, Line]:
    """Return the lag in seconds per window: for each topic, the maximum over its partitions."""
    worst = F.max("lag_ms") / 1000
    return _lines(frames.table("lag_history").where("lag_ms is not null"), worst)


def throughput_by_topic(frames: MirrorFrames) -> dict[str, Line]:
    """Return the MB per second of copied batches, per window."""
    return _lines(frames.table("ranges"), F.sum("bytes") / 1e6 / WINDOW_S)


def readiness_by_group(frames: MirrorFrames) -> Readiness:
    """Return how many partitions of each group have their place on the target."""
    counted = frames.table("groups").groupBy("group_id")
    sums = counted.agg(F.count_if("ready").alias("ready"), F.count_if(~F.col("ready")).alias("not"))
    rows = collect(sums.orderBy("group_id")).to_pylist()
    return {row["group_id"]: (row["ready"], row["not"]) for row in rows}


def _lines(rows: DataFrame, value: Any) -> dict[str, Line]:
    window = F.window("at", f"{WINDOW_S} seconds").alias("window")
    summed = rows.groupBy(window, "topic").agg(value.alias("value"))
    ordered = summed.selectExpr("window.start as at", "topic", "value").orderBy("at")
    lines: dict[str, Line] = defaultdict(list)
    for row in collect(ordered).to_pylist():
        lines[row["topic"]].append((row["at"], row["value"]))
    return lines


def draw(charts: Sequence[tuple[str, Mapping[str, Line]]], readiness: Readiness, file: str) -> None:
    """Draw the charts below one another into `file`, as PNG, SVG or PDF by its extension."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4 * (len(charts) + 1)), layout="constrained")
    *every, last = figure.subplots(len(charts) + 1, squeeze=False)[:, 0]
    _draw_readiness(last, readiness)
    topics = sorted({topic for _, lines in charts for topic in lines})
    times = _windows(charts)
    for axes, (title, lines) in zip(every, charts, strict=True):
        axes.set_title(title)
        axes.sharex(every[0])
        for number, topic in enumerate(topics):
            values = dict(lines.get(topic, ()))
            if values:
                # A window without a row had no lag or no copied records.
                shown = [values.get(at, 0.0) for at in times]
                axes.plot(times, shown, ".-", label=topic, color=f"C{number}")
        axes.grid(visible=True, alpha=0.3)
        axes.set_ylim(bottom=0)
        if lines:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
        else:
            axes.text(0.5, 0.5, "no history", ha="center", transform=axes.transAxes)
    if times:
        margin = timedelta(seconds=WINDOW_S)
        every[-1].set_xlim(times[0] - margin, times[-1] + margin)
    every[-1].set_xlabel("UTC")
    figure.savefig(file)


def _draw_readiness(axes: Any, readiness: Readiness) -> None:
    axes.set_title("Failover readiness")
    names = list(readiness)
    ready, others = ([counts[n] for counts in readiness.values()] for n in (0, 1))
    axes.barh(names, ready, color="C2", label="ready")
    axes.barh(names, others, left=ready, color="C3", label="not on the target yet")
    axes.set_xlabel("partitions")
    if names:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    else:
        axes.text(0.5, 0.5, "no consumer groups", ha="center", transform=axes.transAxes)


def _windows(charts: Iterable[tuple[str, Mapping[str, Line]]]) -> list[datetime]:
    """Return all windows from the first to the last of any line."""
    found = [at for _, lines in charts for line in lines.values() for at, _ in line]
    if not found:
        return []
    first, step = min(found), timedelta(seconds=WINDOW_S)
    return [first + step * n for n in range((max(found) - first) // step + 1)]


def main(arguments: Sequence[str]) -> int:
    if not 2 <= len(arguments) <= 3:
        print(__doc__, file=sys.stderr)
        return 1
    if importlib.util.find_spec("matplotlib") is None:
        print("matplotlib is not installed: pip install matplotlib", file=sys.stderr)
        return 1
    config, file, *flow = arguments
    try:
        with open_frames(config, flow[0] if flow else None) as frames:
            charts = [
                ("Lag in seconds", lag_by_topic(frames)),
                ("Throughput in MB/s", throughput_by_topic(frames)),
            ]
            readiness = readiness_by_group(frames)
    except ConnectError as error:
        print(error, file=sys.stderr)
        return 1
    draw(charts, readiness, file)
    print(f"Plotted to {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
