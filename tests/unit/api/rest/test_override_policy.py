"""A connector's config reaches no client except through the worker's override policy."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.support.rest import call
from tests.support.workers.standalone_rest import create, standalone_rest

SINK = {"connector.class": "FileStreamSink", "topics": "t"}
WORKER = {
    "connector.client.config.override.policy": "None",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="worker" password="canary";',
}


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    """Listens like a broker that somebody else runs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("DELETE", None)])
def test_a_sinks_offsets_are_not_asked_of_another_host(
    elsewhere: socket.socket, method: str, body: object
) -> None:
    servers = "admin.override.bootstrap.servers"
    with standalone_rest(WORKER) as url:
        address = f"127.0.0.1:{elsewhere.getsockname()[1]}"
        assert create(url, "s", {**SINK, servers: address}).status == 201
        answer = call(url, method, "/connectors/s/offsets", body)
    assert answer.error == (
        400,
        "The 'None' policy does not allow 'bootstrap.servers' to be overridden in the connector"
        " configuration.",
    )
    with pytest.raises(BlockingIOError):
        elsewhere.accept()


def test_a_sinks_offsets_are_not_those_of_another_group(elsewhere: socket.socket) -> None:
    group = {"consumer.override.group.id": "another"}
    with standalone_rest(WORKER) as url:
        assert create(url, "s", {**SINK, **group}).status == 400
