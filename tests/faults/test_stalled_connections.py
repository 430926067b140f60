"""A connection that stops to pass bytes, without being closed, is noticed and replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from connect.clients.cluster.broker_node import PATIENCE_S
from deploy.brokers import KafkaCluster, KafkaRuntime
from deploy.brokers.properties import CONTROLLER
from tests.support.copier.copying import CopyRun
from tests.support.copier.proxy import TcpProxy
from tests.support.records.producing import numbered, produce
from tests.support.records.streams import assert_copied
from tests.support.records.topics import create_topic
from tests.support.waiting import wait_until

REQUEST_TIMEOUT_S = 1_000.0
"""By which such a connection is given up at the latest: longer than a test may take."""
SEEN_S = 20.0
"""By which people see it; a busy machine needs its time."""
REPLACED_S = HEALED_S = 60.0


@pytest.fixture(scope="module")
def proxies(kafka: KafkaRuntime, session_logs: Path) -> Iterator[list[TcpProxy]]:
    """Those through which alone clients reach a cluster."""
    with ExitStack() as stack:
        found: list[TcpProxy] = []

        def advertise(listener: str, port: int) -> int:
            if listener == CONTROLLER:
                return port
            found.append(stack.enter_context(TcpProxy(port)))
            return found[-1].port

        cluster = KafkaCluster(name="stalled", kafka=kafka, logs=session_logs, advertise=advertise)
        stack.enter_context(cluster)
        yield found


@pytest.fixture(autouse=True)
def healed(proxies: list[TcpProxy]) -> Iterator[None]:
    """Resets what a test stalled: the clients that tests share keep their connections."""
    yield
    for proxy in proxies:
        proxy.heal()


def through(proxies: list[TcpProxy]) -> str:
    """The addresses of that cluster."""
    return ",".join(proxy.address for proxy in proxies)


def copying(source: str, target: str) -> tuple[CopyRun, str, str]:
    """A run that copies one topic of 100 records, not begun yet; and both topics."""
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(100))
    run = CopyRun(source, target, timeout_ms=round(REQUEST_TIMEOUT_S * 1000))
    run.add(topic, copy)
    return run, topic, copy


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_stalled_connection_is_replaced_within_seconds(
    proxies: list[TcpProxy], target_cluster: KafkaCluster, side: str
) -> None:
    other = target_cluster.bootstrap_servers
    source, target = (through(proxies), other) if side == "source" else (other, through(proxies))
    run, topic, copy = copying(source, target)
    with run:
        run.wait({(topic, 0): 100})
        for proxy in proxies:
            proxy.stall()
        produce(source, topic, numbered(100, start=100))
        run.wait({(topic, 0): 200}, REPLACED_S)
    for proxy in proxies:
        proxy.heal()  # also for the consumers that tests share
    assert_copied(run, (source, topic), (target, copy))


@pytest.mark.slow
def test_a_silent_source_is_named_as_long_as_it_is_silent(
    proxies: list[TcpProxy], target_cluster: KafkaCluster
) -> None:
    run, topic, _ = copying(through(proxies), target_cluster.bootstrap_servers)
    with run:
        run.wait({(topic, 0): 100})
        wait_until(lambda: run.error(topic) is None, SEEN_S, "it is caught up, and well")
        for proxy in proxies:
            proxy.cut()
        try:
            wait_until(lambda: run.error(topic), SEEN_S, "somebody says so")
            # Connections are made anew meanwhile, which nobody answers either.
            began = time.monotonic()
            while time.monotonic() - began < 3 * PATIENCE_S:
                assert "has not responded since" in str(run.error(topic))
                threading.Event().wait(0.2)
        finally:
            for proxy in proxies:
                proxy.heal()
        wait_until(lambda: run.error(topic) is None, HEALED_S, "it is well again")
