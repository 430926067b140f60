"""A cluster link without a cluster: it says why, goes on trying, and ends cleanly at any moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.config.settings import WireSettings
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.node_connector import NodeConnector
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import BrokerUnavailable, ConnectError
from tests.unit.connect.clients.hostile_peer import unused_port

AMPLE_S = 10.0


class Watched:
    """A link whose changes can be awaited."""

    def __init__(self, *ports: int, request_timeout_ms: int = 30_000) -> None:
        self.changed = threading.Event()
        self.link = ClusterLink(
            WireSettings(
                bootstrap=tuple(("127.0.0.1", port) for port in ports),
                request_timeout_ms=request_timeout_ms,
            ),
            self.changed.set,
            name="link-under-test",
        )

    def failure(self) -> ConnectError:
        assert self.changed.wait(AMPLE_S)
        assert self.link.failure is not None
        return self.link.failure


@pytest.fixture
def unreachable() -> Iterator[Watched]:
    watched = Watched(unused_port(), request_timeout_ms=200)
    yield watched
    watched.link.close()


@pytest.fixture
def silent() -> Iterator[Watched]:
    """A link to a peer that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        watched = Watched(listener.getsockname()[1])
        yield watched
        watched.link.close()


def threads_of_the_link() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("link-under-test")]


def test_an_unreachable_cluster_is_a_failure_that_may_pass(unreachable: Watched) -> None:
    failure = unreachable.failure()
    assert isinstance(failure, BrokerUnavailable)
    assert "127.0.0.1" in str(failure)
    assert unreachable.link.snapshot.version == 0


def test_the_same_failure_is_told_and_logged_once(
    unreachable: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable.failure()
    unreachable.changed.clear()
    caplog.clear()
    assert not unreachable.changed.wait(0.3)
    assert caplog.records == []


def test_an_unknown_node_cannot_be_connected_to(unreachable: Watched) -> None:
    with pytest.raises(BrokerUnavailable, match="node 7 is not in the cluster's metadata"):
        unreachable.link.connect(7).result(AMPLE_S)


def test_calls_end_with_the_reason_when_their_time_is_up(unreachable: Watched) -> None:
    futures: list[Future[Any]] = [
        unreachable.link.init_producer_id(),
        unreachable.link.list_offsets([("a", 0)], -1, timeout_s=0.1),
    ]
    for future in futures:
        with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1|did not get metadata in time"):
            future.result(AMPLE_S)


def test_closing_ends_waiting_futures_and_threads_at_once(silent: Watched) -> None:
    waiting: list[Future[Any]] = [
        silent.link.init_producer_id(),
        silent.link.list_offsets([("a", 0)], -1),
    ]
    silent.link.close()
    assert threads_of_the_link() == []
    for future in waiting:
        with pytest.raises(BrokerUnavailable, match="closed"):
            future.result(0)


def test_a_closed_link_refuses_and_closes_again(silent: Watched) -> None:
    silent.link.close()
    silent.link.close()
    refused: list[Future[Any]] = [silent.link.connect(1), silent.link.init_producer_id()]
    for future in refused:
        with pytest.raises(BrokerUnavailable, match="closed"):
            future.result(0)
    silent.link.watch_topics({"a"})
    silent.link.request_refresh()


def test_a_link_cannot_be_closed_from_its_own_threads(unreachable: Watched) -> None:
    caught: list[BaseException | None] = []
    future = unreachable.link.connect(7)

    def close_there(_: object) -> None:
        try:
            unreachable.link.close()
        except RuntimeError as error:
            caught.append(error)

    with pytest.raises(BrokerUnavailable):
        future.result(AMPLE_S)
    unreachable.link.run_aside("close", lambda: close_there(None)).result(AMPLE_S)
    assert len(caught) == 1


def test_an_observer_that_fails_does_not_end_the_link(caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Event()

    def observer() -> None:
        called.set()
        raise ValueError("observer")

    settings = WireSettings(bootstrap=(("127.0.0.1", unused_port()),))
    link = ClusterLink(settings, observer, name="link-under-test")
    assert called.wait(AMPLE_S)
    link.close()
    assert "on_change failed" in caplog.text


def test_a_node_that_failed_is_not_tried_again_before_its_backoff() -> None:
    cancellation = Cancellation()
    settings = WireSettings(
        bootstrap=(), reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000
    )
    connector = NodeConnector(settings, cancellation, SYSTEM_CLOCK)
    address = ("127.0.0.1", unused_port())
    with pytest.raises(BrokerUnavailable, match="refused"):
        connector.open(address, Deadline(AMPLE_S))
    with pytest.raises(BrokerUnavailable, match="backoff is not over"):
        connector.open(address, Deadline(0.05))
    connector.succeeded(address)
    with pytest.raises(BrokerUnavailable, match="refused"):
        connector.open(address, Deadline(AMPLE_S))
    cancellation.close()


def test_a_result_that_comes_after_closing_is_discarded() -> None:
    threads = OneShotThreads("aside")
    go_on = threading.Event()
    discarded: list[str] = []

    def work() -> str:
        go_on.wait(AMPLE_S)
        return "late"

    future = threads.run("work", work, discard=discarded.append)
    threads.stop()
    go_on.set()
    with pytest.raises(BrokerUnavailable, match="aside is closed"):
        future.result(AMPLE_S)
    assert discarded == ["late"]
    assert threads.join(Deadline(AMPLE_S)) == []
