"""What a default mirror costs beside copying: 100 consumer groups, and nothing that changes.

    python -m tests.benchmarks.groups [--groups 100] [--idle-timeout-ms 60000]

One `connect-mirror-maker` on two clusters: seconds from its launch to the first checkpoint, memory
of all its processes while the Spark session of the first config sync is there and when it is gone
(never, with 0), and CPU over a minute after that. Then the same without the jobs (checkpoints, sync
of configs and ACLs), which tells what of it is theirs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from connect.clock import SYSTEM_CLOCK
from deploy.brokers import KafkaCluster, kafka_runtime
from tests.benchmarks.watching import EndOffsets, ProcessUse
from tests.support.flows.mirrors import mirror_maker
from tests.support.records.groups import commit
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic
from tests.support.waiting import wait_until

PARTITIONS, RECORDS = 10, 1_000
START_S, SESSION_S, SETTLE_S, MEASURED_S, STOP_S = 120.0, 180.0, 60.0, 60.0, 30.0
JVM_MIB = 200.0
"""With a JVM the processes have at least so much more than without."""
WITHOUT_JOBS = {
    "emit.checkpoints.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
}


def properties(source: str, target: str, idle_timeout_ms: int) -> dict[str, str]:
    """Defaults, but for what clusters of one broker need."""
    factors = ("", "offset-syncs.topic.", "heartbeats.topic.", "checkpoints.topic.")
    stores = ("offset.storage.", "status.storage.", "config.storage.")
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        "mirror.spark.idle.timeout.ms": str(idle_timeout_ms),
        **{f"{prefix}replication.factor": "1" for prefix in factors + stores},
    }


def fill(source: str, groups: int) -> None:
    topic = create_topic(source, name="orders", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(source, topic, [Record(b"v", partition=partition) for _ in range(RECORDS)])
    for number in range(groups):
        offsets = {(topic, p): (number * 7 + p) % RECORDS for p in range(PARTITIONS)}
        commit(source, f"group-{number}", offsets)


def measure(use: ProcessUse, launched: float, target: str, *, session_ends: bool) -> float:
    """Percent of a core, idle."""
    waiting = threading.Event()
    with EndOffsets(target, "A.checkpoints.internal", 1) as ends:
        wait_until(ends.total, START_S, "the first checkpoint")
    print(f"first checkpoint after {SYSTEM_CLOCK.monotonic() - launched:.1f} s", flush=True)
    least, most = use.now().rss_mib, 0.0
    began = SYSTEM_CLOCK.monotonic()
    while SYSTEM_CLOCK.monotonic() - began < SESSION_S:
        now = use.now().rss_mib
        least, most = min(least, now), max(most, now)
        if session_ends and most > least + JVM_MIB and now < most - JVM_MIB:
            break
        waiting.wait(1)
    seconds = SYSTEM_CLOCK.monotonic() - launched
    print(f"memory with the session: at most {most:.0f} MiB")
    share, mib = idle(use)
    print(f"memory after {seconds:.0f} s: {mib:.0f} MiB; then {share:.2f} % of a core", flush=True)
    return share


def measure_without_jobs(use: ProcessUse) -> float:
    """Percent of a core. All was copied by the mirror before."""
    threading.Event().wait(SETTLE_S)
    share, mib = idle(use)
    print(f"without the jobs: {mib:.0f} MiB, {share:.2f} % of a core", flush=True)
    return share


def idle(use: ProcessUse) -> tuple[float, float]:
    """Percent of a core over the next minute, and MiB at its end."""
    before, started = use.now(), SYSTEM_CLOCK.monotonic()
    threading.Event().wait(MEASURED_S)
    after = use.now()
    return 100 * (after.cpu_s - before.cpu_s) / (SYSTEM_CLOCK.monotonic() - started), after.rss_mib


@contextmanager
def mirror(properties: dict[str, str], directory: Path) -> Iterator[ProcessUse]:
    process = mirror_maker(properties, directory, directory.with_suffix(".log"))
    try:
        yield ProcessUse(process.pid)
        process.stop(STOP_S)
    finally:
        process.close()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.groups")
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--idle-timeout-ms", type=int, default=60_000)
    arguments = parser.parse_args(argv)
    kafka = kafka_runtime()
    with (
        tempfile.TemporaryDirectory() as directory,
        KafkaCluster(name="source", kafka=kafka, logs=Path(directory)) as source,
        KafkaCluster(name="target", kafka=kafka, logs=Path(directory)) as target,
    ):
        servers = source.bootstrap_servers, target.bootstrap_servers
        fill(servers[0], arguments.groups)
        print(f"load {os.getloadavg()[0]:.1f}")
        launched = SYSTEM_CLOCK.monotonic()
        props = properties(*servers, arguments.idle_timeout_ms)
        with mirror(props, Path(directory) / "mirror") as use:
            ends = arguments.idle_timeout_ms > 0
            whole = measure(use, launched, servers[1], session_ends=ends)
        with mirror(props | WITHOUT_JOBS, Path(directory) / "without") as use:
            rest = measure_without_jobs(use)
        print(f"the jobs alone: {whole - rest:.2f} % of a core; load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
