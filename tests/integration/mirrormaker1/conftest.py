"""Clusters, and `kafka-mirror-maker` between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.brokers import GuardedProcess, KafkaCluster
from tests.support.flows.mirrormaker1 import Clusters, Run, mm1


@pytest.fixture
def clusters(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path
) -> Clusters:
    return Clusters(source_cluster, target_cluster, tmp_path)


@pytest.fixture
def run(logs: Path) -> Iterator[Run]:
    """Start `kafka-mirror-maker`; it is killed at the end if it still runs."""
    with ExitStack() as stack:
        count = 0

        def start(options: Sequence[str], **more: int) -> GuardedProcess:
            nonlocal count
            count += 1
            process = mm1(options, logs / f"mm1-{count}.log", **more)
            stack.callback(process.close)
            return process

        yield start


@pytest.fixture(scope="module")
def three(session_logs: Path) -> Iterator[list[KafkaCluster]]:
    """Two sources and a target of their own: the manuals mirror all topics."""
    made = [KafkaCluster(name=name, logs=session_logs) for name in ("mm1-a", "mm1-b", "mm1-c")]
    with ExitStack() as stack:
        for cluster in made:
            stack.callback(cluster.close)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(KafkaCluster.start, made))
        yield made
