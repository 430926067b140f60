"""Keys under the names of MirrorMaker 2's earlier releases, in connectors' own configs."""

from __future__ import annotations

from connectors.mirror.config.checkpoint import CheckpointConfig
from connectors.mirror.config.former_names import former_names
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.filters import config_property_filter, group_filter, topic_filter

PROPS = {
    "name": "mirror",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
}


def source(**more: str) -> SourceConfig:
    return SourceConfig.from_properties(PROPS | {k.replace("_", "."): v for k, v in more.items()})


def test_what_was_excluded_under_a_former_name_stays_excluded() -> None:
    topics = topic_filter(source(topics_blacklist="secret.*").originals)
    assert not topics.should_replicate_topic("secret-1")
    assert topics.should_replicate_topic("orders")
    configs = config_property_filter(source(config_properties_blacklist="flush.ms").originals)
    assert not configs.should_replicate_config_property("flush.ms")
    checkpoints = CheckpointConfig.from_properties(PROPS | {"groups.blacklist": "probe.*"})
    assert not group_filter(checkpoints.originals).should_replicate_group("probe-1")


def test_the_new_name_counts_where_both_are_set() -> None:
    topics = topic_filter(source(topics_blacklist="old", topics_exclude="new").originals)
    assert topics.should_replicate_topic("old")
    assert not topics.should_replicate_topic("new")


def test_a_former_name_is_pointed_out() -> None:
    assert former_names(PROPS) == []
    assert former_names(PROPS | {"topics.blacklist": "x"}) == [
        "topics.blacklist is the old name of topics.exclude; rename it"
    ]
    assert former_names(PROPS | {"topics.blacklist": "x", "topics.exclude": "y"}) == [
        "topics.blacklist is the old name of topics.exclude; it is ignored because topics.exclude "
        "is set too"
    ]
