"""Copying goes on through everything that happens to brokers, in order and without a gap.

Two clusters of three nodes are shared by all tests; a test leaves every node running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect.clients.config.settings import FetchSettings
from connectors.mirror.copy.batches.choice import CopyOptions
from deploy.brokers import KafkaCluster, KafkaNode, KafkaRuntime
from tests.support.copier.copying import CopyRun
from tests.support.records.streams import NumberedStream, assert_copied
from tests.support.records.topics import admin, create_topic, end_offsets
from tests.support.waiting import wait_until

PARTITIONS = 3
PAUSE_S = 9.0
"""Longer than the brokers' session timeout of 6 s, so that leaders move, and than requests wait."""


@dataclass(frozen=True)
class Pair:
    source: KafkaCluster
    target: KafkaCluster

    def of(self, side: str) -> KafkaCluster:
        return self.source if side == "source" else self.target


@pytest.fixture(scope="module")
def pair(kafka: KafkaRuntime, session_logs: Path) -> Iterator[Pair]:
    with (
        KafkaCluster(3, name="faults-source", kafka=kafka, logs=session_logs) as source,
        KafkaCluster(3, name="faults-target", kafka=kafka, logs=session_logs) as target,
    ):
        yield Pair(source, target)


def leader(cluster: KafkaCluster, topic: str, partition: int = 0) -> KafkaNode:
    found = admin(cluster.bootstrap_servers).list_topics(topic, timeout=30.0).topics[topic]
    return cluster.node(found.partitions[partition].leader)


def replicated(cluster: KafkaCluster, **configs: str) -> str:
    settings = {"min.insync.replicas": "2"}
    settings.update({key.replace("_", "."): value for key, value in configs.items()})
    return create_topic(
        cluster.bootstrap_servers, partitions=PARTITIONS, replication=3, configs=settings
    )


class Copying:
    """Two streams, one of them transactional, and their copies, while a test breaks things."""

    def __init__(self, pair: Pair, **target_configs: str) -> None:
        self.pair = pair
        self.topics = {
            replicated(pair.source): replicated(pair.target, **target_configs),
            replicated(pair.source): replicated(pair.target),
        }
        self.plain, self.transactional = self.topics
        self.run = CopyRun(
            pair.source.bootstrap_servers,
            pair.target.bootstrap_servers,
            fetch=FetchSettings(isolation_level=1),
            options=CopyOptions(read_committed=True),
        )
        for topic, copy in self.topics.items():
            for partition in range(PARTITIONS):
                self.run.add(topic, copy, partition)

    def during(self, trouble: Callable[[], None]) -> None:
        """Stream and copy before, during and after the trouble; then all must be right."""
        servers = self.pair.source.bootstrap_servers
        with self.run:
            with (
                NumberedStream(servers, self.plain, PARTITIONS) as plain,
                NumberedStream(servers, self.transactional, PARTITIONS, transactional=True),
            ):
                wait_until(lambda: self._reached(50), 30.0, "copying is under way")
                trouble()
                self._reached_more(plain.counts[0])
            self.run.wait(self._ends(), 60.0)
            wait_until(lambda: not self._errors(), 20.0, "no partition shows an error any more")
        for topic, copy in self.topics.items():
            for partition in range(PARTITIONS):
                assert_copied(
                    self.run,
                    (servers, topic),
                    (self.pair.target.bootstrap_servers, copy),
                    partition,
                    isolation="read_committed",
                )

    def _ends(self) -> dict[tuple[str, int], int]:
        servers = self.pair.source.bootstrap_servers
        return {
            (topic, partition): end
            for topic in self.topics
            for partition, end in end_offsets(servers, topic).items()
        }

    def _errors(self) -> list[str]:
        keys = [(topic, partition) for topic in self.topics for partition in range(PARTITIONS)]
        return [error for key in keys if (error := self.run.error(*key))]

    def _reached(self, offset: int) -> bool:
        positions = self.run.positions()
        return all(positions.get((self.plain, p), -1) >= offset for p in range(PARTITIONS))

    def _reached_more(self, offset: int) -> None:
        wait_until(lambda: self._reached(offset + 50), 60.0, "copying goes on after the trouble")


@pytest.mark.slow
@pytest.mark.parametrize("side", ["target", "source"])
def test_a_leader_is_killed_and_comes_back(pair: Pair, side: str) -> None:
    copying = Copying(pair)
    topic = copying.topics[copying.plain] if side == "target" else copying.plain

    def trouble() -> None:
        victim = leader(pair.of(side), topic)
        victim.kill()
        wait_until(
            lambda: leader_or_none(pair.of(side), topic) not in (None, victim.node_id),
            30.0,
            "another broker leads",
        )
        victim.start()

    copying.during(trouble)


def leader_or_none(cluster: KafkaCluster, topic: str) -> int | None:
    found = admin(cluster.bootstrap_servers).list_topics(topic, timeout=30.0).topics[topic]
    number = found.partitions[0].leader
    return None if number < 0 else number


@pytest.mark.slow
@pytest.mark.parametrize("side", ["target", "source"])
def test_a_leader_hangs_for_a_while(pair: Pair, side: str) -> None:
    copying = Copying(pair)
    topic = copying.topics[copying.plain] if side == "target" else copying.plain

    def trouble() -> None:
        victim = leader(pair.of(side), topic)
        victim.pause()
        try:
            threading.Event().wait(PAUSE_S)
        finally:
            victim.resume()

    copying.during(trouble)


@pytest.mark.slow
def test_all_brokers_of_both_clusters_restart_one_after_the_other(pair: Pair) -> None:
    def trouble() -> None:
        for node_id in (1, 2, 3):
            nodes = [pair.source.node(node_id), pair.target.node(node_id)]
            with ThreadPoolExecutor(len(nodes)) as pool:
                list(pool.map(KafkaNode.stop, nodes))
            for node in nodes:
                node.launch()
            for node in nodes:
                node.wait_until_ready(60.0, brokers=3)

    Copying(pair).during(trouble)


@pytest.mark.slow
def test_too_few_replicas_stop_only_the_partitions_that_ask_for_them(pair: Pair) -> None:
    copying = Copying(pair, min_insync_replicas="3")
    victim = pair.target.node(3)

    def trouble() -> None:
        victim.stop()
        try:
            wait_until(lambda: copying.run.error(copying.plain, 0), 30.0, "it says why")
            before = copying.run.positions()
            wait_until(
                lambda: all(
                    position > before[key]
                    for key, position in copying.run.positions().items()
                    if key[0] == copying.transactional
                ),
                30.0,
                "the other topic is copied on",
            )
            wait_until(
                lambda: "NOT_ENOUGH_REPLICAS" in (copying.run.error(copying.plain, 0) or ""),
                30.0,
                "the target's reason, after its time-outs",
            )
        finally:
            victim.start()

    copying.during(trouble)
