"""A mirror with transformations that writes exactly once, killed in the middle of transactions."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.exactly_once_mirror import OnceMirror, mirror_process
from tests.support.flows.transformed import SMT, transforms
from tests.support.records.offset_records import offset_map
from tests.support.records.producing import Record, meanwhile, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, end_offset, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 120.0
KILLS = 4
STAGES = {
    "drop": {"type": f"{SMT}Filter", "predicate": "test"},
    "name": {"type": f"{SMT}RegexRouter", "regex": "A[.](.*)", "replacement": "$1-kept"},
}


class Growing:
    """A topic of which every third record, and a long run now and then, is dropped."""

    def __init__(self, servers: str) -> None:
        self.servers, self.topic = servers, create_topic(servers)
        self.kept: list[int] = []
        self._written = 0
        self._draw = random.Random(5)

    def write(self) -> None:
        first, everything = self._written, self._draw.random() < 0.3
        dropped = [n for n in range(first, first + 60) if everything or n % 3 == 0]
        records = [
            Record(b"v%d" % n, headers=[("test", b"")] if n in dropped else [])
            for n in range(first, first + 60)
        ]
        produce(self.servers, self.topic, records, batch_records=20)
        self.kept += sorted({*range(first, first + 60)} - {*dropped})
        self._written += 60


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_again_and_again_each_kept_record_is_there_once(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    growing = Growing(source)
    copy = create_topic(target, name=f"{growing.topic}-kept")
    mirror = OnceMirror(source, target, unique("once"), [f"{growing.topic}-0"])
    mirror.options = {
        **transforms(STAGES, prefix=""),
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "300",
    }
    draw = random.Random(3)
    with meanwhile(growing.write):
        for _ in range(KILLS):
            with mirror_process(mirror, logs / "mirror.log") as process:
                before = end_offset(target, copy)
                wait_until(lambda: end_offset(target, copy) > before, TIMEOUT_S, "copying")  # noqa: B023
                time.sleep(draw.uniform(0.0, 1.0))
                process.kill()
    growing.write()
    with mirror_process(mirror, logs / "mirror.log") as process:

        def copied() -> list[int]:
            return numbers(read_partition(target, copy, isolation="read_committed"))

        wait_until(lambda: copied()[-1:] == growing.kept[-1:], TIMEOUT_S, "the last record")
        assert process.stop(30.0) == 0
    assert copied() == growing.kept
    # Where the map knows a record it is right: pages of runs that were killed soon are missing.
    found = offset_map(source, "mm2-offset-map.B.internal", growing.topic)
    known = {
        offset: target_offset
        for target_offset, offset in places(target, copy)
        if any(s.source <= offset < s.source + s.length for s in found.segments)
    }
    assert known
    assert {offset: found.downstream(offset) for offset in known} == known


def places(servers: str, topic: str) -> Iterator[tuple[int, int]]:
    """(offset on the target, offset on the source) of each committed record: its number."""
    records = read_partition(servers, topic, isolation="read_committed")
    return zip((record.offset for record in records), numbers(records), strict=True)
