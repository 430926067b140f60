"""The demo's mirror: its properties file, its process, and its CPU and memory use."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.brokers import GuardedProcess, ProcessFailed
from deploy.brokers.process import complaints

__all__ = [
    "SOURCE",
    "TARGET",
    "Mirror",
    "ProcessCost",
    "installed_command",
    "mm2_properties",
    "parse_lag",
    "process_cost",
    "read_page",
]

SOURCE, TARGET = "paris", "tokyo"

COMMAND = "connect-mirror-maker"
_SCRAPE_S = 2.0
_LAG_METRIC = "kafka_connect_mirror_mirrorsourceconnector_record_lag"
_PS_S = 5.0


def mm2_properties(source_servers: str, target_servers: str, listener: str) -> str:
    """Return the properties file, with comments for readers."""
    return f"""\
# The demo's configuration of {COMMAND}, in the format of Java's MirrorMaker 2.
clusters = {SOURCE}, {TARGET}
{SOURCE}.bootstrap.servers = {source_servers}
{TARGET}.bootstrap.servers = {target_servers}

{SOURCE}->{TARGET}.enabled = true
{SOURCE}->{TARGET}.topics = .*
{TARGET}->{SOURCE}.enabled = false

# Do not copy aborted transactions.
{SOURCE}.consumer.isolation.level = read_committed

# Both clusters have a single broker.
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1

# Look for new topics and groups every few seconds, so that you can try it.
refresh.topics.interval.seconds = 5
refresh.groups.interval.seconds = 5
emit.checkpoints.interval.seconds = 5

# The history of losses, copied ranges and lag goes to a database; nobody looks back at a demo.
mirror.history.url = none

# Pages /metrics (Prometheus) and /health of the mirror.
metrics.listener = {listener}
"""


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """CPU seconds (user and system) since the process began, and its resident memory."""

    cpu_s: float
    rss_bytes: int


class Mirror:
    """A running `connect-mirror-maker`. Its owner closes it."""

    def __init__(self, properties: Path, log: Path, listener: str) -> None:
        script = installed_command(COMMAND)
        self._listener = listener
        self._process = GuardedProcess([str(script), str(properties)], log)

    def check(self) -> None:
        """Raise `ProcessFailed` with the end of its log if the process has ended."""
        status = self._process.poll()
        if status is not None:
            raise ProcessFailed(
                f"{COMMAND} exited with status {status}; its log {self._process.log} "
                f"says:\n{complaints(self._process.log)}"
            )

    def cost(self) -> ProcessCost | None:
        """Return the process's cost; None if the process has ended or cannot be inspected."""
        return process_cost(self._process.pid)

    def reported_lag(self) -> dict[tuple[str, int], int]:
        """Return the lag in records by (source topic, partition), from the mirror's /metrics page;
        empty if the page is not available."""
        return parse_lag(read_page(f"{self._listener}/metrics?family=A"))

    def stop(self, timeout_s: float) -> int:
        """Send SIGTERM, so that it stores its final offsets, and return its exit status."""
        return self._process.stop(timeout_s)

    def close(self) -> None:
        self._process.close()


def installed_command(name: str) -> Path:
    """Return the path of one of this project's commands, beside the running Python. Raises
    `ProcessFailed`."""
    script = Path(sys.executable).with_name(name)
    if not script.exists():
        raise ProcessFailed(f"{script} is missing: run `make install` first")
    return script


def read_page(url: str) -> str:
    """Return the text at this URL; empty if there is no response."""
    try:
        with urllib.request.urlopen(url, timeout=_SCRAPE_S) as page:
            return str(page.read().decode())
    except (urllib.error.URLError, OSError, ValueError):
        return ""


def parse_lag(page: str) -> dict[tuple[str, int], int]:
    """Parse the lag metric's series of a /metrics page."""
    lags = {}
    for line in page.splitlines():
        if not line.startswith(_LAG_METRIC + "{"):
            continue
        labels = _labels(line[len(_LAG_METRIC) + 1 : line.rindex("}")])
        topic = labels["topic"].removeprefix(f"{labels['source']}.")
        lags[topic, int(labels["partition"])] = int(float(line.rsplit(" ", 1)[1]))
    return lags


def _labels(inside: str) -> Mapping[str, str]:
    """Parse the labels of one series. The demo's names need no unescaping."""
    pairs = (pair.split("=", 1) for pair in inside.split(","))
    return {name: value.strip('"') for name, value in pairs}


def process_cost(pid: int) -> ProcessCost | None:
    """Read the cost from /proc if it exists (Linux), otherwise from `ps`."""
    try:
        return _from_proc(pid) if os.path.isdir("/proc/self") else _from_ps(pid)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def _from_proc(pid: int) -> ProcessCost:
    # The second field is the name in parentheses, which may contain blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ProcessCost(
        ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    )


def _from_ps(pid: int) -> ProcessCost:
    answer = subprocess.run(
        ["ps", "-o", "time=,rss=", "-p", str(pid)],
        capture_output=True,
        text=True,
        timeout=_PS_S,
        check=True,
    )
    cpu, rss = answer.stdout.split()
    seconds = 0.0
    for part in cpu.replace("-", ":").split(":"):
        seconds = seconds * 60 + float(part)
    return ProcessCost(seconds, int(rss) * 1024)
