"""A whole standalone worker over REST in this process, without a cluster.

Its offsets are in memory. Connectors that are created STOPPED need no broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from api.cli.worker_start.plugins import plugin_registry
from api.rest.server import RestServer
from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.metrics.registry import MetricRegistry
from connect.runtime.plugins.permissions import OperatorPermissions
from connect.runtime.standalone.herder import StandaloneHerder
from connect.runtime.worker import Worker
from tests.support.rest import Answer, call
from tests.support.workers.memory_offset_store import MemoryOffsetStore

__all__ = ["create", "standalone_rest"]

_TIMEOUT_S = 10.0
_DEFAULTS = {
    "listeners": "http://127.0.0.1:0",
    "bootstrap.servers": "127.0.0.1:9",
    "key.converter": "ByteArrayConverter",
    "value.converter": "ByteArrayConverter",
    "offset.storage.file.filename": "unused",
    "file.connectors.root": "/",
}


@contextmanager
def standalone_rest(
    props: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The URL of a worker with these properties, besides those that a worker needs."""
    full = {**_DEFAULTS, **(props or {})}
    metrics = MetricRegistry()
    server = RestServer(full, metrics, environment or {})
    server.bind()
    worker = Worker(
        WorkerConfig.for_standalone(full),
        plugin_registry(full),
        metrics,
        worker_id=server.worker_id,
        offset_store=MemoryOffsetStore(),
        permissions=OperatorPermissions(full, environment or {}),
    )
    herder = StandaloneHerder(worker)
    try:
        herder.start(Deadline(_TIMEOUT_S))
        server.start()
        server.herder_started(herder)
        server.worker_ready()
        yield server.advertised_url
    finally:
        server.stop()
        herder.stop(Deadline(_TIMEOUT_S))


def create(url: str, name: str, config: Mapping[str, str]) -> Answer:
    """The answer to the creation of a stopped connector."""
    body = {"name": name, "config": dict(config), "initial_state": "STOPPED"}
    return call(url, "POST", "/connectors", body)
