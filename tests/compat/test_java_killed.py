"""Java's MirrorMaker 2 is killed: ours takes over, and the audit names what was left twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from api.cli.mirror_audit import main
from deploy.brokers import GuardedProcess, KafkaCluster, KafkaRuntime
from tests.support.flows.killed_mirrors import (
    PROPERTIES,
    caught_up,
    make_topics,
    repeats,
    wait_copying,
    wait_rounds,
)
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.flows.mirrors import java_mirror_maker
from tests.support.properties_files import properties_text
from tests.support.records.offset_records import offset_map
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import read_partition
from tests.support.records.steady import SteadyWriter

PARTITIONS, COUNT = 2, 300
ONCE = {
    "B.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}
NEVER_MS = "600000"
"""Source offsets are stored by clean stops only: all that was copied before a kill, is again."""


class Killed:
    """A flow of one topic that Java copies first."""

    def __init__(
        self, kafka: KafkaRuntime, flow: MirroredFlow, directory: Path, logs: Path
    ) -> None:
        self.flow = flow
        self.topic = flow.topic(partitions=PARTITIONS)
        self._kafka, self._directory, self._logs = kafka, directory, logs
        self._written = self._lives = 0
        self.properties = flow.properties(
            {"B.offset.flush.interval.ms": NEVER_MS, "A.consumer.auto.offset.reset": "earliest"}
        )

    def write(self, count: int) -> None:
        for partition in range(PARTITIONS):
            records = numbered(count, start=self._written, partition=partition)
            produce(self.flow.source_servers, self.topic, records, batch_records=40)
        self._written += count

    def _log(self) -> Path:
        self._lives += 1
        return self._logs / f"{self._lives}.log"

    @contextmanager
    def java_running(self) -> Iterator[GuardedProcess]:
        log = self._log()
        with java_mirror_maker(self._kafka, self.properties, self._directory, log) as mirror:
            yield mirror

    @contextmanager
    def ours_running(self) -> Iterator[GuardedProcess]:
        log = self._log()
        with running(self.properties, self._directory, log) as mirror:
            yield mirror
            stop_cleanly(mirror, log)

    def java(self, more: int, again: int, *, killed: bool = False) -> None:
        """A life of Java's: it copies so many more records of each partition, and `again` those
        that its killed predecessor had copied."""
        self.write(more)
        with self.java_running() as mirror:
            self.flow.wait_records(self.topic, [self._written + again] * PARTITIONS, 120)
            if killed:
                mirror.kill()
            else:
                assert mirror.stop(60) == 128 + 15

    def ours(self, more: int, again: int) -> None:
        self.write(more)
        with self.ours_running():
            self.flow.wait_records(self.topic, [self._written + again] * PARTITIONS, 90)

    def doubled(self) -> list[int]:
        """How many records each copy has twice. It has all of them, in order, but for one jump
        back."""
        found = []
        for partition in range(PARTITIONS):
            before = read_partition(self.flow.source_servers, self.topic, partition)
            after = read_partition(
                self.flow.target_servers, self.flow.remote(self.topic), partition
            )
            assert repeats(before, after) <= 1
            found.append(len(after) - len(before))
        return found

    def audited(self, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        """The command's exit code, and the differences it names."""
        path, found = self._directory / "audited.properties", self._directory / "found.json"
        path.write_text(properties_text(self.properties))
        local = ["--engine", "local", "--processes", "1", "--topics", f"{self.flow.prefix}.*"]
        code = main([str(path), *local, "--json", str(found), *arguments])
        written = json.loads(found.read_text())
        return code, [
            {"partition": partition["partition"], **difference}
            for partition in written["partitions"]
            for each in partition["ranges"]
            for difference in each["differences"]
        ]


@pytest.fixture
def killed(
    kafka: KafkaRuntime,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
    logs: Path,
) -> Killed:
    return Killed(kafka, MirroredFlow(source_cluster, target_cluster), tmp_path, logs)


def doubles(source: int, target: int) -> list[dict[str, Any]]:
    """That each copy has `COUNT` records twice: from this source offset on, again from this target
    offset on."""
    return [
        {
            "partition": partition,
            "kind": "duplicate",
            "source": source,
            "target": target,
            "records": COUNT,
        }
        for partition in range(PARTITIONS)
    ]


def test_ours_takes_over_from_javas_that_was_killed(killed: Killed) -> None:
    killed.java(COUNT, 0)
    killed.java(COUNT, 0, killed=True)
    killed.ours(100, again=COUNT)
    assert killed.doubled() == [COUNT] * PARTITIONS
    assert killed.audited() == (3, doubles(COUNT, 2 * COUNT))
    for partition in range(PARTITIONS):
        translate = offset_map(
            killed.flow.source_servers, killed.flow.map_topic, killed.topic, partition
        )
        assert [translate.downstream(n) for n in (COUNT, 2 * COUNT + 99)] == [
            2 * COUNT,
            3 * COUNT + 99,
        ]


@pytest.mark.slow
def test_the_audit_names_what_javas_copied_twice(killed: Killed) -> None:
    killed.java(COUNT, 0, killed=True)
    killed.java(100, again=COUNT)
    assert killed.doubled() == [COUNT] * PARTITIONS
    assert killed.audited() == (3, doubles(0, COUNT))
    killed.ours(100, again=COUNT)
    assert killed.audited() == (3, doubles(0, COUNT))


@pytest.mark.slow
@pytest.mark.parametrize("once", [{}, ONCE], ids=["at-least-once", "exactly-once"])
def test_ours_takes_over_from_javas_that_was_killed_while_it_copied(
    killed: Killed, once: dict[str, str]
) -> None:
    """A plain, a transactional and a compacted topic, written all the while."""
    flow = killed.flow
    topics = make_topics(flow)
    killed.properties = flow.properties({**PROPERTIES, **once})
    with SteadyWriter(flow.source_servers, *topics) as writer:
        for _ in range(2):
            with killed.java_running() as mirror:
                wait_copying(flow, next(iter(topics)), 120)
                wait_rounds(writer, 100)
                mirror.kill()
        with killed.ours_running():
            wait_copying(flow, next(iter(topics)), 120)
            wait_rounds(writer, 100)
    with killed.ours_running():
        caught_up(flow, topics)
    jumps = 0
    for topic, partitions in topics.items():
        for partition in range(partitions):
            before = read_partition(
                flow.source_servers, topic, partition, isolation="read_committed"
            )
            after = read_partition(
                flow.target_servers, flow.remote(topic), partition, isolation="read_committed"
            )
            found = repeats(before, after)
            assert found <= (0 if once else 2)
            jumps += found
    code, differences = killed.audited()
    # What is on the copy of a compacted topic only has been compacted on the source.
    assert {each["kind"] for each in differences} <= {"duplicate"}
    assert code == (3 if differences else 0)
    assert jumps or not differences
