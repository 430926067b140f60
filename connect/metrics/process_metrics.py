"""Metrics of this process, with the names and units of Prometheus' own client libraries.

Read from /proc; there are none where it does not exist.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

from connect.metrics.catalogue import PROCESS_GROUP
from connect.metrics.registry import MetricRegistry, MetricValue

__all__ = ["process_metrics", "register_process_metrics"]

_STAT, _FDS, _MACHINE = Path("/proc/self/stat"), Path("/proc/self/fd"), Path("/proc/stat")


def register_process_metrics(registry: MetricRegistry) -> None:
    """Show the process's metrics as long as the registry is used."""
    if _STAT.exists():
        registry.register(PROCESS_GROUP, {}, process_metrics)


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


def _booted_s() -> int:
    """Return when the machine was started, in seconds since 1970."""
    lines = _MACHINE.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime "))
