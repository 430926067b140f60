"""Metrics of this process and its interpreter, with the names and units of Prometheus' own client
libraries. Those of the process are read from /proc; there are none where it does not exist.
"""

from __future__ import annotations

import gc
import os
import platform
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

from connect.metrics.catalogue import PROCESS_GROUP, PYTHON_GROUP
from connect.metrics.registry import MetricRegistry, MetricSample, MetricValue

__all__ = ["process_metrics", "python_metrics", "register_process_metrics"]

_STAT, _FDS, _MACHINE = Path("/proc/self/stat"), Path("/proc/self/fd"), Path("/proc/stat")


def register_process_metrics(registry: MetricRegistry) -> None:
    """Show the process's metrics as long as the registry is used."""
    if _STAT.exists():
        registry.register(PROCESS_GROUP, {}, process_metrics)
    registry.register_samples(PYTHON_GROUP, python_metrics, PYTHON_GROUP)


def process_metrics() -> Mapping[str, MetricValue]:
    """Return CPU time, memory, open files and the start time."""
    # The second field is the name in parentheses, which may contain blanks.
    fields = _STAT.read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        "cpu-seconds-total": (int(fields[11]) + int(fields[12])) / ticks,
        "start-time-seconds": _booted_s() + int(fields[19]) / ticks,
        "virtual-memory-bytes": int(fields[20]),
        "resident-memory-bytes": int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        "open-fds": sum(1 for _ in os.scandir(_FDS)),
        "max-fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }


def python_metrics() -> Iterator[MetricSample]:
    """Yield the interpreter's version, and what its garbage collector did in each generation."""
    major, minor, patch = platform.python_version_tuple()
    interpreter = {
        "implementation": platform.python_implementation(),
        "major": major,
        "minor": minor,
        "patchlevel": patch,
        "version": platform.python_version(),
    }
    yield MetricSample(PYTHON_GROUP, interpreter, {"info": 1})
    for number, generation in enumerate(gc.get_stats()):
        yield MetricSample(
            PYTHON_GROUP,
            {"generation": str(number)},
            {
                "gc-objects-collected-total": generation["collected"],
                "gc-objects-uncollectable-total": generation["uncollectable"],
                "gc-collections-total": generation["collections"],
            },
        )


def _booted_s() -> int:
    """Return when the machine was started, in seconds since 1970."""
    lines = _MACHINE.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime "))
