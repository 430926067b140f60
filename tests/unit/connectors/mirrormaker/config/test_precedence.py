"""The precedence of mm2.properties, compared with what Kafka 4.3.1's own class makes of it.

`tests/golden/mirror_maker_config` holds property files, the Java program, and its output.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.precedence import (
    MIRROR_CONNECTORS,
    Flow,
    cluster_settings,
    values,
)
from tests.golden.mirror_maker_config.environment import ENVIRONMENT

GOLDEN = Path(__file__).parents[4] / "golden" / "mirror_maker_config"
FILES = sorted(path.stem for path in GOLDEN.glob("*.properties"))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def load(name: str) -> tuple[MirrorMakerConfig, dict[str, Any]]:
    config = MirrorMakerConfig.from_file(GOLDEN / f"{name}.properties")
    return config, json.loads((GOLDEN / f"{name}.json").read_text())


def test_there_are_files_to_compare() -> None:
    assert len(FILES) >= 5


@pytest.mark.parametrize("name", FILES)
def test_the_same_flows_run(name: str) -> None:
    config, java = load(name)
    # In Java the order is that of a hash set; ours is that of `clusters`.
    assert sorted(str(flow) for flow in config.flows()) == sorted(java["pairs"])


@pytest.mark.parametrize("name", FILES)
def test_workers_get_javas_properties(name: str) -> None:
    config, java = load(name)
    for pair, expected in java["flows"].items():
        source, target = pair.split("->")
        ours = config.worker_config(source, target)
        if "offset.flush.interval.ms" not in expected["worker"]:
            assert ours.pop("offset.flush.interval.ms") == "5000"
        assert ours == expected["worker"], pair


@pytest.mark.parametrize("connector", MIRROR_CONNECTORS)
@pytest.mark.parametrize("name", FILES)
def test_connectors_get_javas_properties(name: str, connector: str) -> None:
    config, java = load(name)
    for pair, expected in java["flows"].items():
        source, target = pair.split("->")
        assert config.connector_config(source, target, connector) == expected[connector], pair


@pytest.mark.parametrize("name", FILES)
def test_clusters_and_their_clients_get_javas_properties(name: str) -> None:
    config, java = load(name)
    for alias, expected in java["clusters"].items():
        assert config.client_config(alias) == expected["clientConfig"], alias
        raw = config.effective_worker("none", alias)
        assert expected["clusterProps"].keys() - raw.keys() == set()


def test_every_value_knows_the_key_and_line_it_came_from() -> None:
    config, _ = load("precedence")
    connector = config.effective_connector("A", "B", "MirrorSourceConnector")
    assert connector["topics"].key == "A->B.topics"
    assert connector["source.consumer.ssl.truststore.location"].key == (
        "A->B.source.consumer.ssl.truststore.location"
    )
    assert connector["source.admin.ssl.truststore.location"].key == "A.ssl.truststore.location"
    assert connector["source.cluster.alias"].key == ""
    worker = config.effective_worker("A", "B")
    assert worker["offset.storage.replication.factor"].key == "offset.storage.replication.factor"
    assert worker["producer.ssl.truststore.location"].key == "ssl.truststore.location"
    lines = (GOLDEN / "precedence.properties").read_text().splitlines()
    for settings in (connector, worker):
        for setting in settings.values():
            if setting.line is not None:
                assert lines[setting.line - 1].startswith(setting.key)


def test_a_flow_is_a_pair() -> None:
    source, target = Flow("A", "B")
    assert (source, target) == ("A", "B")
    assert str(Flow("A", "B")) == "A->B"
    assert values(cluster_settings({}, "A")) == {}
