"""Each wrong option of the data source is one sentence with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.dataframes.data_source import KafkaMirrorDataSource
from connectors.dataframes.options import open_flow, table_name
from connectors.dataframes.schemas import SCHEMAS

FILE = """
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
B->A.enabled = true
A.consumer.ssl.key.password = 5ecret
spark.master = spark://far:7077
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return str(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r'^No table is named: call load\("lag"\), or another of lag, groups, .*audit$'),
        ({"path": "lags"}, r"^Unknown table lags: load one of lag, groups, .*audit$"),
        (
            {"path": "lag", "topic": "t"},
            r"^Unknown option topic of the data source: use config, flow, topics$",
        ),
        (
            {"path": "lag", "topics": "t"},
            r"^Option topics is for the table audit: filter lag by its column topic$",
        ),
        (
            {"path": "audit", "topics": "("},
            r"^Option topics=\( is not a valid Java regular expression:",
        ),
    ],
)
def test_a_wrong_table_or_option_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        table_name(options)


def test_every_table_has_a_name() -> None:
    for name in SCHEMAS:
        assert table_name({"path": name}) == name


def test_a_flow_has_its_properties_and_not_sparks(config: str) -> None:
    flow = open_flow({"path": "lag", "config": config, "flow": "A:B"})
    assert (flow.name, flow.aliases) == ("A->B", ("A", "B"))
    assert flow.properties["source.consumer.ssl.key.password"] == "5ecret"
    assert not [key for key in flow.properties if key.startswith("spark.")]
    assert flow.offsets_client["bootstrap.servers"] == "127.0.0.1:2"
    assert "5ecret" not in repr(flow)


def test_a_wrong_file_or_flow_is_named_with_the_remedy(config: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^Option config is missing: set it to the path of"):
        open_flow({})
    missing = tmp_path / "none.properties"
    with pytest.raises(
        ConfigError, match=r"^Option config=.*none.properties: there is no such file .*absolute"
    ):
        open_flow({"config": str(missing)})
    flows = r"Flows that copy: A->B, B->A$"
    with pytest.raises(ConfigError, match=rf"^Invalid value for option flow: C->B. {flows}"):
        open_flow({"config": config, "flow": "C->B"})
    with pytest.raises(ConfigError, match=rf"^Invalid value for option flow: not given. {flows}"):
        open_flow({"config": config})


def test_a_state_cannot_be_streamed(config: str) -> None:
    source = KafkaMirrorDataSource({"path": "lag", "config": config, "flow": "A->B"})
    with pytest.raises(
        ConfigError, match=r"^Table lag cannot be streamed, .*: use spark.read, or .*ranges.*$"
    ):
        source.streamReader(source.schema())
