"""Which configs a new topic of the target gets."""

from __future__ import annotations

from connect.clients.descriptions import ConfigEntry, ConfigSource
from connectors.mirror.filters import DefaultConfigPropertyFilter
from connectors.mirror.topic_sync import copied_configs


def entry(
    name: str,
    source: ConfigSource = ConfigSource.DYNAMIC_TOPIC_CONFIG,
    *,
    value: str | None = "v",
    read_only: bool = False,
    sensitive: bool = False,
) -> ConfigEntry:
    return ConfigEntry(name, value, source, read_only, sensitive)


def test_what_someone_set_is_copied() -> None:
    entries = [
        entry("retention.ms", value="5000"),
        entry("max.message.bytes", ConfigSource.DYNAMIC_BROKER_CONFIG, value="7"),
        entry("segment.ms", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, value="8"),
    ]
    assert copied_configs(entries, DefaultConfigPropertyFilter({})) == {
        "retention.ms": "5000",
        "max.message.bytes": "7",
        "segment.ms": "8",
    }


def test_what_is_not_the_topics_own_or_is_excluded_is_not_copied() -> None:
    entries = [
        entry("a", ConfigSource.STATIC_BROKER_CONFIG),
        entry("b", read_only=True),
        entry("c", sensitive=True),
        entry("d", value=None),
        entry("min.insync.replicas"),
        entry("e", ConfigSource.DEFAULT_CONFIG),
    ]
    assert copied_configs(entries, DefaultConfigPropertyFilter({})) == {}


def test_the_sources_defaults_are_copied_when_asked_for() -> None:
    entries = [
        entry("retention.ms", ConfigSource.DEFAULT_CONFIG),
        entry("min.insync.replicas", ConfigSource.DEFAULT_CONFIG),
    ]
    properties = DefaultConfigPropertyFilter({"use.defaults.from": "source"})
    assert copied_configs(entries, properties) == {"retention.ms": "v"}
