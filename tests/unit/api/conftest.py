"""REST servers of workers whose herder is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from api.rest.server import RestServer
from connect.metrics.registry import MetricRegistry
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import LISTENER, StartServer


@pytest.fixture
def herder() -> InMemoryHerder:
    return InMemoryHerder()


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts a server for a herder, with more worker properties and environment; its URL."""
    with ExitStack() as stack:

        def start(
            herder: InMemoryHerder | None,
            props: Mapping[str, str] | None = None,
            environment: Mapping[str, str] | None = None,
        ) -> str:
            server = RestServer({**LISTENER, **(props or {})}, MetricRegistry(), environment or {})
            stack.callback(server.stop)
            server.bind()
            server.start()
            if herder is not None:
                server.herder_started(herder)
                server.worker_ready()
            return server.advertised_url

        yield start


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RestServer]:
    """A server without any special properties; starting one for each test would take long."""
    server = RestServer(LISTENER, MetricRegistry(), {})
    server.bind()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def url(herder: InMemoryHerder, shared_server: RestServer) -> str:
    """The URL of a server that asks `herder`."""
    shared_server.herder_started(herder)
    shared_server.worker_ready()
    return shared_server.advertised_url
