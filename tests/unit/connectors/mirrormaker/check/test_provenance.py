"""Where each property of a client came from."""

from __future__ import annotations

import pytest

from connectors.mirrormaker.check.provenance import connector_clients, data_producer, shown_value
from connectors.mirrormaker.check.report import ClientReport
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.precedence import Setting
from connectors.mirrormaker.flow_plans import plan_flows, resolved_source_config

PROPERTIES = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.jaas.config": "user secret",
    "A.consumer.fetch.max.bytes": "7",
    "A.consumer.max.poll.records": "5",
    "A->B.source.consumer.max.poll.records": "6",
    "A->B.consumer.isolation.level": "read_committed",
    "B.producer.linger.ms": "9",
    "A->B.producer.override.compression.type": "zstd",
}


def clients() -> dict[str, dict[str, tuple[str, str]]]:
    config = MirrorMakerConfig.from_properties(PROPERTIES)
    plan = next(plan for plan in plan_flows(config) if plan.source == "A")
    settings = config.effective_connector("A", "B", "MirrorSourceConnector")
    reports = connector_clients(settings, resolved_source_config(config, plan))
    return {report.role: table(report) for report in reports}


def table(report: ClientReport) -> dict[str, tuple[str, str]]:
    return {setting.key: (setting.value, setting.origin) for setting in report.settings}


def test_each_value_names_the_key_of_the_file_that_won() -> None:
    consumer = clients()["source consumer"]
    assert consumer["fetch.max.bytes"] == ("7", "A.consumer.fetch.max.bytes")
    assert consumer["max.poll.records"] == ("6", "A->B.source.consumer.max.poll.records")
    assert consumer["isolation.level"] == ("read_committed", "A->B.consumer.isolation.level")
    assert consumer["bootstrap.servers"] == ("a:1", "A.bootstrap.servers")
    assert consumer["security.protocol"] == ("SASL_PLAINTEXT", "security.protocol")
    assert consumer["auto.offset.reset"] == ("earliest", "built in")
    assert clients()["target admin"]["bootstrap.servers"] == ("b:1", "B.bootstrap.servers")


def test_secrets_are_hidden_and_still_name_their_key() -> None:
    for client in clients().values():
        assert client["sasl.jaas.config"] == ("[hidden]", "sasl.jaas.config")


def test_the_producer_of_the_copies_is_the_workers() -> None:
    config = MirrorMakerConfig.from_properties(PROPERTIES)
    report = data_producer(
        {"linger.ms": "9", "compression.type": "zstd", "acks": "all", "bootstrap.servers": "b:1"},
        config.effective_worker("A", "B"),
        config.effective_connector("A", "B", "MirrorSourceConnector"),
    )
    assert table(report) == {
        "acks": ("all", "built in"),
        "bootstrap.servers": ("b:1", "B.bootstrap.servers"),
        "compression.type": ("zstd", "A->B.producer.override.compression.type"),
        "linger.ms": ("9", "B.producer.linger.ms"),
    }


def test_a_value_from_a_file_names_its_line() -> None:
    linger = Setting("9", "B.producer.linger.ms", 4)
    report = data_producer({"linger.ms": "9"}, {"producer.linger.ms": linger}, {})
    assert table(report) == {"linger.ms": ("9", "B.producer.linger.ms (line 4)")}


@pytest.mark.parametrize(
    "key",
    [
        "sasl.jaas.config",
        "ssl.keystore.key",
        "producer.ssl.key.password",
        "sasl.oauthbearer.client.credentials.client.secret",
        "my.api.token",
    ],
)
def test_what_may_be_secret_is_hidden(key: str) -> None:
    assert shown_value(key, "hunter2") == "[hidden]"


def test_what_is_no_secret_is_shown() -> None:
    assert shown_value("ssl.keystore.location", "k.pem") == "k.pem"
    assert Setting("v").key == ""
