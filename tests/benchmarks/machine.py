"""Where and when something was measured, in words."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import psutil

from connect.java_home import java_version
from deploy.brokers import KAFKA_VERSION, find_java

__all__ = ["describe_machine"]

_GIT_S = 10.0


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.strip()


def describe_machine() -> dict[str, str]:
    """Call it before anything is started: the load is that of the others."""
    java = find_java()
    memory = psutil.virtual_memory().total / 2**30
    busy = psutil.cpu_percent(2.0) * (psutil.cpu_count() or 1) / 100
    return {
        "measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC at commit {_commit()}",
        "machine": f"{psutil.cpu_count()} cores ({_processor()}), {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}; it runs both brokers and the mirror",
        "busy before the start": f"{busy:.2f} cores, load average {os.getloadavg()[0]:.1f}",
        "versions": f"Kafka {KAFKA_VERSION}, one KRaft node per cluster; Java "
        f"{java_version(java) if java else 'none'}; Python {platform.python_version()}",
    }
