"""Limits as they are written, and which topic has which."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect.errors import ConfigError
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, RateLimit
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.source.connector import MirrorSourceConnector, validate_source
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig

FLOW = {
    "name": "c",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
}


def limits(**keys: str) -> FlowLimits:
    named = {f"mirror.rate.{key}": value for key, value in keys.items()}
    return SourceConfig.from_properties({**FLOW, **named}).limits


def test_without_keys_nothing_is_limited() -> None:
    assert limits() == NO_LIMITS
    assert not limits().whole
    assert not limits().of_topic("orders")


def test_rates_are_written_as_people_write_them() -> None:
    assert limits(bytes="50MB", records="2000").whole == RateLimit(50e6, 2000.0)
    assert limits(bytes="1.5KiB/s").whole == RateLimit(1536.0)


def test_the_first_that_matches_a_whole_name_counts_for_each_kind() -> None:
    found = limits(topics="logs-a=1MB,logs-.*=2MB/s,.*=500records/s,other=5records")
    assert found.of_topic("logs-a") == RateLimit(1e6, 500.0)
    assert found.of_topic("logs-b") == RateLimit(2e6, 500.0)
    assert found.of_topic("other") == RateLimit(None, 500.0)
    assert found.of_topic("xlogs-b") == RateLimit(None, 500.0)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"bytes": "fast"}, "mirror.rate.bytes"),
        ({"bytes": "0"}, "mirror.rate.bytes"),
        ({"records": "0"}, "mirror.rate.records"),
        ({"topics": "orders"}, "mirror.rate.topics"),
        ({"topics": "orders=0records"}, "mirror.rate.topics"),
        ({"topics": "=5MB"}, "mirror.rate.topics"),
        ({"topics": "(=5MB"}, "mirror.rate.topics"),
    ],
)
def test_what_is_no_rate_is_refused_by_its_key(keys: Mapping[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        limits(**keys)
    assert refused.value.key == named


def test_copying_on_spark_takes_them() -> None:
    assert not validate_source({**FLOW, "mirror.engine": "spark", "mirror.rate.bytes": "5MB"})


def test_every_limit_may_be_changed_while_the_flow_runs() -> None:
    keys = {key for key in MirrorSourceConnector.config_def().keys if "mirror.rate." in key}
    assert keys == MirrorSourceConnector.live_keys()


def test_dedicated_mode_has_them_for_single_flows() -> None:
    clusters = {"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}
    config = MirrorMakerConfig.from_properties(
        {**clusters, "A->B.enabled": "true", "A->B.mirror.rate.bytes": "5MB"}
    )
    found = SourceConfig.from_properties(
        config.connector_config("A", "B", "MirrorSourceConnector")
    ).limits
    assert found.whole == RateLimit(5e6)
