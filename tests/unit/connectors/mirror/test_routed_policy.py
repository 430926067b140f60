"""Transformations that rename topics rename them for everything that a mirror does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.config.transforms import transform_problems
from connectors.mirror.replication_policy import ReplicationPolicy, replication_policy
from connectors.mirror.topic_routes import use_plugins
from connectors.mirror.topics.clusters import topic_selector

SMT = "org.apache.kafka.connect.transforms."
FLOW = {
    "name": "mirror",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
}
ONLY_PAYMENTS = {
    "predicates": "pay",
    "predicates.pay.type": f"{SMT}predicates.TopicNameMatches",
    "predicates.pay.pattern": "pay.*",
}


@pytest.fixture(autouse=True)
def kafkas_own() -> Iterator[None]:
    """Only Kafka's transformations: a search for others takes its time."""
    use_plugins(PluginRegistry(discover=False))
    yield
    use_plugins(PluginRegistry())


def chain(**stages: dict[str, str]) -> dict[str, str]:
    return {
        **FLOW,
        "transforms": ",".join(stages),
        **{
            f"transforms.{a}.{key}": text
            for a, keys in stages.items()
            for key, text in keys.items()
        },
    }


STRIP = {"type": f"{SMT}RegexRouter", "regex": r"A\.(.*)", "replacement": "$1"}
MASK = {"type": f"{SMT}MaskField$Value", "fields": "card", "predicate": "pay"}


def routed(props: dict[str, str]) -> ReplicationPolicy:
    policy = replication_policy(props)
    assert policy.chain is not None
    return policy


def test_without_transformations_the_policy_is_as_it_was() -> None:
    policy = replication_policy(FLOW)
    assert policy.chain is None
    assert policy.remote_topic("A", "orders") == "A.orders"
    assert not policy.changes_records("A", "orders")


def test_a_router_names_copies_and_leaves_their_records_alone() -> None:
    policy = routed(chain(strip=STRIP))
    assert policy.remote_topic("A", "orders") == "orders"
    assert not policy.changes_records("A", "orders")
    assert policy.format_remote_topic("A", "orders") == "A.orders"


def test_predicates_see_the_name_that_earlier_stages_gave() -> None:
    policy = routed({**chain(strip=STRIP, mask=MASK), **ONLY_PAYMENTS})
    assert policy.changes_records("A", "payments")
    assert not policy.changes_records("A", "orders")
    policy = routed({**chain(mask=MASK, strip=STRIP), **ONLY_PAYMENTS})
    assert not policy.changes_records("A", "payments"), "it is A.payments then"


def test_a_negated_predicate_excludes_what_it_matches() -> None:
    policy = routed({**chain(strip=STRIP, mask={**MASK, "negate": "true"}), **ONLY_PAYMENTS})
    assert policy.changes_records("A", "orders")
    assert not policy.changes_records("A", "payments")


def test_heartbeats_of_the_mirror_go_their_own_way() -> None:
    policy = routed({**chain(strip=STRIP, mask={**MASK, "negate": "true"}), **ONLY_PAYMENTS})
    assert policy.remote_topic("A", "heartbeats") == "A.heartbeats"
    assert not policy.changes_records("A", "heartbeats")
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"


def test_two_topics_never_share_a_copy() -> None:
    one = {"type": f"{SMT}RegexRouter", "regex": r"A\.orders.*", "replacement": "all"}
    selector = topic_selector(SourceConfig.from_properties(chain(one=one)))
    found = selector.select({"orders-1": 1, "orders-2": 1, "other": 1})
    assert dict(found.copied) == {"other": 1}
    assert [skip.topic for skip in found.skipped] == ["orders-1", "orders-2"]
    assert found.skipped[0].detail.startswith("would be named all on B, as would orders-2: ")


def test_no_copy_becomes_an_internal_topic() -> None:
    bad = {"type": f"{SMT}RegexRouter", "regex": ".*", "replacement": "__consumer_offsets"}
    selector = topic_selector(SourceConfig.from_properties(chain(bad=bad)))
    assert not selector.select({"t": 1}).copied


def test_topics_that_depend_on_the_record_are_refused_by_name() -> None:
    daily = {"type": f"{SMT}TimestampRouter"}
    (problem,) = transform_problems(chain(daily=daily))
    assert problem.key == "transforms.daily.type"
    assert "differ from record to record" in problem.message
    some = {**STRIP, "predicate": "null"}
    nulls = {"predicates": "null", "predicates.null.type": f"{SMT}predicates.RecordIsTombstone"}
    (problem,) = transform_problems({**chain(some=some), **nulls})
    assert problem.key == "transforms.some.type"
    assert transform_problems(chain(strip=STRIP)) == []


def test_unknown_classes_are_refused_with_both_engines() -> None:
    assert not transform_problems({**chain(strip=STRIP), "mirror.engine": "spark"})
    on_spark = {**chain(own={"type": "nowhere.Own"}), "mirror.engine": "spark"}
    (problem,) = transform_problems(on_spark)
    assert problem.key == "transforms.own.type"
    (problem,) = transform_problems(chain(own={"type": "nowhere.Own"}))
    assert problem.key == "transforms.own.type"
    reads = {"mirror.transforms.value.converter": "nowhere.Json"}
    (problem,) = transform_problems({**chain(strip=STRIP), **reads})
    assert problem.key == "mirror.transforms.value.converter"


def test_every_method_of_a_policy_is_the_wrapped_ones() -> None:
    plain = replication_policy(FLOW)
    policy = routed(chain(strip=STRIP))
    for topic in (
        "A.orders",
        "orders",
        "B.A.orders",
        "heartbeats",
        "__x",
        "mm2-configs.A.internal",
    ):
        for method in (
            "topic_source",
            "upstream_topic",
            "original_topic",
            "offset_syncs_topic",
            "offset_map_topic",
            "checkpoints_topic",
            "is_heartbeats_topic",
            "is_checkpoints_topic",
            "is_mm2_internal_topic",
            "is_internal_topic",
        ):
            assert getattr(policy, method)(topic) == getattr(plain, method)(topic)
    assert policy.heartbeats_topic() == plain.heartbeats_topic()
