"""What a node's `server.properties` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers.properties import (
    controller_ids,
    render,
    server_properties,
    zookeeper_broker_properties,
)

PORTS = {
    node: {"PLAINTEXT": 100 + node, "SASL": 200 + node, "CONTROLLER": 300 + node} for node in (1, 2)
}


def of(node: int, **extra: str) -> dict[str, str]:
    listeners = {"PLAINTEXT": "PLAINTEXT", "SASL": "SASL_SSL"}
    return server_properties(node, listeners, PORTS, Path("/data"), extra)


@pytest.mark.parametrize(
    ("nodes", "controllers"), [(1, [1]), (2, [1]), (3, [1, 2, 3]), (4, [1, 2, 3])]
)
def test_the_number_of_controllers_is_odd(nodes: int, controllers: list[int]) -> None:
    assert list(controller_ids(nodes)) == controllers


def test_a_controller_listens_for_its_quorum() -> None:
    assert of(1)["process.roles"] == "broker,controller"
    assert of(1)["listeners"] == (
        "PLAINTEXT://127.0.0.1:101,SASL://127.0.0.1:201,CONTROLLER://127.0.0.1:301"
    )
    assert of(1)["advertised.listeners"] == "PLAINTEXT://127.0.0.1:101,SASL://127.0.0.1:201"


def test_a_broker_alone_knows_the_quorum_but_does_not_listen_for_it() -> None:
    assert of(2)["process.roles"] == "broker"
    assert of(2)["listeners"] == "PLAINTEXT://127.0.0.1:102,SASL://127.0.0.1:202"
    assert of(2)["controller.quorum.voters"] == "1@127.0.0.1:301"
    assert of(2)["listener.security.protocol.map"] == (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_SSL"
    )


def test_controllers_alone_serve_no_clients_and_brokers_are_no_controllers() -> None:
    def alone(node: int) -> dict[str, str]:
        return server_properties(
            node, {"PLAINTEXT": "PLAINTEXT"}, PORTS, Path("/data"), {}, controllers_alone=[2]
        )

    assert alone(2)["process.roles"] == "controller"
    assert alone(2)["listeners"] == "CONTROLLER://127.0.0.1:302"
    assert "advertised.listeners" not in alone(2)
    assert alone(1)["process.roles"] == "broker"
    assert alone(1)["controller.quorum.voters"] == "2@127.0.0.1:302"
    assert alone(1)["offsets.topic.replication.factor"] == "1"


def test_the_callers_properties_win() -> None:
    assert of(1, **{"broker.session.timeout.ms": "9000"})["broker.session.timeout.ms"] == "9000"


def test_internal_topics_fit_the_number_of_nodes() -> None:
    assert of(1)["offsets.topic.replication.factor"] == "2"


def test_values_are_escaped_as_java_reads_them() -> None:
    assert render({"a": "C:\\x", "b": "one\ntwo", "c": " x", "d": "ü😀"}) == (
        "a=C:\\\\x\nb=one\\ntwo\nc=\\ x\nd=\\u00fc\\ud83d\\ude00\n"
    )


def test_a_broker_of_zookeeper_knows_nothing_of_kraft() -> None:
    listeners = {"PLAINTEXT": "PLAINTEXT", "SASL": "SASL_SSL"}
    ports = {node: {"PLAINTEXT": 100 + node, "SASL": 200 + node} for node in (1, 2)}
    properties = zookeeper_broker_properties(
        2, "127.0.0.1:9", listeners, ports, Path("/data"), {"log.retention.ms": "-1"}
    )
    assert properties["broker.id"] == "2"
    assert properties["zookeeper.connect"] == "127.0.0.1:9"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:102,SASL://127.0.0.1:202"
    assert properties["advertised.listeners"] == properties["listeners"]
    assert properties["offsets.topic.replication.factor"] == "2"
    assert properties["log.retention.ms"] == "-1"
    assert not [
        key for key in properties if key.startswith(("controller", "process", "node.", "share."))
    ]
