"""Starts the demo's two clusters concurrently, and stops cleanly on request."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded
from deploy.brokers import KafkaCluster, KafkaRuntime
from deploy.demo.stopping import Stop

__all__ = ["running_clusters"]

_LOOK_S = 0.1
_GIVE_UP_S = 60.0


@contextlib.contextmanager
def running_clusters(
    names: tuple[str, ...], kafka: KafkaRuntime, logs: Path, stop: Stop
) -> Iterator[list[KafkaCluster]]:
    """Yield running clusters of one broker each. They and their data are deleted at the end of the
    block.

    Raises `DeployError` if one does not start, and `StopRequested`.
    """
    clusters = [KafkaCluster(name=name, kafka=kafka, logs=logs) for name in names]
    try:
        _start(clusters, stop)
        yield clusters
    finally:
        for cluster in clusters:
            cluster.close()


def _start(clusters: list[KafkaCluster], stop: Stop) -> None:
    errors: list[ConnectError] = []

    def start(cluster: KafkaCluster) -> None:
        try:
            cluster.start()
        except ConnectError as error:
            errors.append(error)

    threads = [
        threading.Thread(target=start, args=(cluster,), name=f"start-{cluster.name}", daemon=True)
        for cluster in clusters
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if errors or stop.event.wait(_LOOK_S):
            _give_up(clusters, threads)
            break
    stop.check()
    if errors:
        raise errors[0]


def _give_up(clusters: list[KafkaCluster], threads: list[threading.Thread]) -> None:
    """Kill the nodes until the threads that wait for them have ended."""
    deadline = Deadline(_GIVE_UP_S)
    for thread in threads:
        while thread.is_alive():
            if deadline.expired():
                raise DeadlineExceeded(f"{thread.name} did not end within {_GIVE_UP_S:g} s")
            for cluster in clusters:
                for node in cluster.nodes:
                    node.kill()
            thread.join(_LOOK_S)
