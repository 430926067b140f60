"""A distributed worker's properties, typed."""

import pytest

from connect.errors import ConfigError
from connect.runtime.distributed.group_config import DistributedConfig, ExactlyOnceSupport
from tests.unit.connect.runtime.distributed.properties import PROPS, config


def test_defaults_are_those_of_java() -> None:
    found = config()
    assert (found.timeouts.session_ms, found.timeouts.rebalance_ms) == (10_000, 60_000)
    assert found.timeouts.heartbeat_ms == 3_000
    assert (found.sync_timeout_s, found.unsync_backoff_s) == (3.0, 300.0)
    assert (found.connect_protocol, found.max_delay_ms) == ("sessioned", 300_000)
    assert found.exactly_once is ExactlyOnceSupport.DISABLED
    assert (found.key_algorithm, found.key_bytes, found.key_ttl_ms) == ("HmacSHA256", 32, 3_600_000)
    assert found.verification_algorithms == ("HmacSHA256",)
    assert (found.config_topic.name, found.config_topic.partitions) == ("c", 1)
    assert (found.status_topic.partitions, found.status_topic.replication_factor) == (5, 3)


def test_topics_are_created_with_further_configs_but_always_compacted_and_whole() -> None:
    found = config(
        config_storage_partitions="9",
        config_storage_cleanup_policy="delete",
        config_storage_segment_bytes="1000",
        status_storage_min_insync_replicas="2",
    )
    assert found.config_topic.partitions == 1
    assert found.config_topic.configs == {"segment.bytes": "1000"}
    assert found.status_topic.configs == {"min.insync.replicas": "2"}


@pytest.mark.parametrize(
    ("support", "fences"), [("disabled", False), ("Preparing", True), ("ENABLED", True)]
)
def test_leaders_are_fenced_as_soon_as_exactly_once_is_prepared(support: str, fences: bool) -> None:
    assert config(exactly_once_source_support=support).exactly_once.fences_leaders is fences


@pytest.mark.parametrize(("bits", "size"), [("256", 32), ("257", 33), ("40", 5)])
def test_keys_have_whole_bytes(bits: str, size: int) -> None:
    assert config(inter_worker_key_size=bits).key_bytes == size


@pytest.mark.parametrize(
    ("props", "text"),
    [
        ({"inter_worker_signature_algorithm": "HmacSHA1"}, "must be present in"),
        ({"inter_worker_verification_algorithms": "Rot13"}, "Rot13"),
        ({"inter_worker_key_generation_algorithm": "AES"}, "HmacSHA256"),
        ({"inter_worker_key_size": "8"}, "at least 40 bits"),
        ({"connect_protocol": "lazy"}, "lazy"),
        ({"config_storage_topic": " "}, "config.storage.topic"),
        ({"status_storage_partitions": "0"}, "status.storage.partitions"),
    ],
)
def test_what_is_wrong_is_named(props: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config(**props)


def test_a_worker_without_a_group_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"group\.id"):
        DistributedConfig.from_properties({**PROPS, "group.id": None})  # type: ignore[dict-item]
