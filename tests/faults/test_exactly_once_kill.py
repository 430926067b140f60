"""kill -9 of a worker whose task writes exactly once, in the middle of its transactions."""

from __future__ import annotations

import sys
from pathlib import Path

from deploy.brokers import GuardedProcess, KafkaCluster
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
KILLS = 2
SOON_MS, NEVER_MS = "500", "600000"
"""When a transaction ends."""


def test_readers_of_committed_records_see_each_line_once(
    target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    servers = target_cluster.bootstrap_servers
    topic = create_topic(servers, "killed")
    file = tmp_path / "lines"
    arguments = [servers, unique("killed"), str(file), topic, unique("killed-offsets")]
    command = [sys.executable, "-m", "tests.support.flows.exactly_once_process", *arguments]
    log = logs / "worker.log"

    def values(isolation: str) -> list[bytes | None]:
        return [record.value for record in read_partition(servers, topic, isolation=isolation)]

    lines: list[bytes | None] = []

    def add() -> bytes:
        """More lines; the last of them."""
        added = [b"%d" % (len(lines) + number) for number in range(1_000)]
        lines.extend(added)
        with file.open("ab") as out:
            out.writelines(line + b"\n" for line in added)
        return added[-1]

    def seen(last: bytes, isolation: str) -> None:
        wait_until(lambda: values(isolation)[-1:] == [last], TIMEOUT_S, f"{last!r} {isolation}")

    for _ in range(KILLS):
        with GuardedProcess([*command, SOON_MS], log) as process:
            seen(add(), "read_committed")
            process.kill()
        with GuardedProcess([*command, NEVER_MS], log) as process:
            seen(add(), "read_uncommitted")  # its transaction is open for long
            process.kill()
    with GuardedProcess([*command, SOON_MS], log) as process:
        seen(add(), "read_committed")
        assert process.stop(TIMEOUT_S) == 0
    assert values("read_committed") == lines
    assert len(values("read_uncommitted")) >= len(lines) + KILLS * 1_000
