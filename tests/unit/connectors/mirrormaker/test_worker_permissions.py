"""Which permissions a worker of Connect and its connectors need."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli.mirror_client import main as mirror_client
from api.cli.program import EXIT_CONFIG
from api.cli.worker_start.plugins import plugin_registry
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError
from connect.runtime.distributed.group_config import DistributedConfig
from connectors.mirrormaker.required_permissions import Feature, required_permissions
from connectors.mirrormaker.worker_permissions import (
    WORKER,
    WorkerConnector,
    connector_features,
    connector_names,
    worker_permissions,
)
from tests.support.properties_files import properties_text

JSON = "org.apache.kafka.connect.json.JsonConverter"
GROUP = {
    "group.id": "workers",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
}
BASE = {
    **GROUP,
    "bootstrap.servers": "b:9092",
    "key.converter": JSON,
    "value.converter": JSON,
}
SINK = {"name": "sink", "connector.class": "FileStreamSink", "topics": "orders, payments"}
SOURCE = {"name": "source", "connector.class": "FileStreamSource", "topic": "lines"}
MIRROR = {
    "name": "mirror",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}


def of_worker(**changed: str) -> set[str]:
    group = DistributedConfig.from_properties({**BASE, **changed})
    return set(map(str, worker_permissions(group, "offsets")))


def made(config: dict[str, str]) -> WorkerConnector:
    return WorkerConnector.from_config(config, plugin_registry({}))


def of_connector(config: dict[str, str], **worker: str) -> set[str]:
    connector = made(config)
    names = connector_names(WorkerConfig.from_properties({**BASE, **worker}), connector)
    wanted = required_permissions(names, connector_features(connector))
    return {f"{each.cluster}: {each}" for each in wanted}


def test_a_worker_needs_its_group_and_its_topics() -> None:
    every = {"Create", "Read", "Write", "DescribeConfigs"}
    topics = {"configs", "offsets", "statuses"}
    wanted = {f"{operation} on topic {name}" for operation in every for name in topics}
    assert of_worker() == {"Read on group workers"} | wanted


@pytest.mark.parametrize("value", ["enabled", "preparing"])
def test_a_worker_that_writes_in_transactions_needs_its_transactional_ids(value: str) -> None:
    assert of_worker(**{"exactly.once.source.support": value}) - of_worker() == {
        "Write on transactional id workers-*",
        "Write on transactional id connect-cluster-workers",
    }


def test_a_sink_needs_its_group_and_its_topics() -> None:
    topics = {f"{WORKER}: Read on topic {name}" for name in ("orders", "payments")}
    assert of_connector(SINK) == {f"{WORKER}: Read on group connect-sink"} | topics
    own = {**SINK, "consumer.override.group.id": "mine"}
    assert of_connector(own) == {f"{WORKER}: Read on group mine"} | topics
    shared = of_connector(SINK, **{"consumer.group.id": "shared"})
    assert shared == {f"{WORKER}: Read on group shared"} | topics
    expression = {"name": "sink", "connector.class": "FileStreamSink", "topics.regex": "pay.*"}
    assert f"{WORKER}: Read on topic pay*" in of_connector(expression)
    aside = of_connector({**SINK, "errors.deadletterqueue.topic.name": "aside"})
    assert aside - of_connector(SINK) == {
        f"{WORKER}: Create on topic aside",
        f"{WORKER}: Write on topic aside",
    }


def test_a_source_needs_the_topic_that_its_config_names() -> None:
    assert of_connector(SOURCE) == {
        f"{WORKER}: Create on topic lines",
        f"{WORKER}: Write on topic lines",
    }
    assert not made(SOURCE).writes_unknown_topics
    assert made({**SOURCE, "topic": ""} | {"name": "x"}).kind == "source"
    unnamed = {key: value for key, value in SOURCE.items() if key != "topic"}
    assert made(unnamed).writes_unknown_topics
    assert not of_connector(unnamed)


@pytest.mark.parametrize(
    ("kind", "features"),
    [
        ("Heartbeat", {Feature.HEARTBEATS}),
        ("Checkpoint", {Feature.GROUP_OFFSETS}),
        ("Source", {Feature.COPYING, Feature.OFFSET_MAP, Feature.ACL_SYNC}),
    ],
)
def test_a_connector_of_the_mirror_needs_the_rows_of_its_flow(
    kind: str, features: set[Feature]
) -> None:
    config = {**MIRROR, "connector.class": f"Mirror{kind}Connector", "topics": "orders"}
    found = connector_features(made(config))
    assert found >= features
    others = {Feature.HEARTBEATS, Feature.GROUP_OFFSETS, Feature.COPYING} - features
    assert not found & others
    assert not made(config).writes_unknown_topics


def test_a_mirror_on_a_worker_has_the_names_of_its_flow() -> None:
    found = of_connector({**MIRROR, "connector.class": "MirrorSourceConnector", "topics": "orders"})
    assert found >= {
        "A: Read on topic orders",
        "A: Write on topic mm2-offset-syncs.B.internal",
        "B: Write on topic A.orders",
    }
    assert not any("mm2-offsets" in each for each in found)


def acls(*arguments: str) -> int:
    return mirror_client(["acls", "--principal", "User:w", *arguments])


def test_the_command_prints_what_a_worker_and_its_connectors_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker, sink, mirror = (tmp_path / name for name in ("worker", "sink", "mirror"))
    worker.write_text(properties_text(BASE))
    sink.write_text(properties_text(SINK))
    beats = {**MIRROR, "connector.class": "MirrorHeartbeatConnector"}
    mirror.write_text(properties_text(beats))
    given = ["--worker", str(worker), "--connector", str(sink), "--connector", str(mirror)]
    assert acls(*given) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line.startswith("#")]
    assert heads == [f"# cluster {WORKER}", "# cluster B"]
    assert sum("--bootstrap-server b:9092" in line for line in lines) == len(lines) - len(heads)
    assert any("--topic configs" in line for line in lines)
    assert any("--group connect-sink" in line for line in lines)
    assert "--topic heartbeats" in lines[-1]
    alone = {key: value for key, value in BASE.items() if key not in GROUP}
    alone["offset.storage.file.filename"] = "offsets"
    worker.write_text(properties_text(alone))
    assert acls("--worker", str(worker), "--connector", str(sink)) == 0
    printed = capsys.readouterr().out
    assert "--group connect-sink" in printed
    assert "--topic configs" not in printed


def test_options_that_do_not_fit_each_other_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert acls("--worker", str(tmp_path / "w"), "--with", "audit") == EXIT_CONFIG
    assert "need --config" in capsys.readouterr().err
    assert acls("--config", str(tmp_path / "c"), "--connector", "x") == EXIT_CONFIG
    assert "needs --worker" in capsys.readouterr().err


def test_a_class_that_nobody_has_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"connector\.class"):
        made({"name": "x", "connector.class": "no.such.Connector"})
