"""Config, ACL and group offset sync as rows in, rows out."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from connect.clients.groups.consumer_groups import Committed, GroupListing
from connect.clients.librdkafka.acls import Acl
from connectors.mirror.checkpoints.group_offset_sync import plan_group_offsets
from connectors.mirror.formats import Checkpoint
from connectors.mirror.settings import plans
from connectors.mirror.spark.settings_plans import (
    acl_plan,
    acl_plan_on_spark,
    config_changes,
    config_changes_on_spark,
)
from connectors.mirror.spark.tables import (
    ACLS,
    CONFIGS,
    PROPERTIES,
    TOPICS,
)
from connectors.mirror.spark.translate.group_offset_plan import plan_on_spark
from connectors.spark.arrow import collect
from tests.support.spark.session import frame

TOPIC, DEFAULT = "DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"
Config = tuple[str, str | None, str]


def rows(found: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in collect(found).to_pylist()), key=str)


def changes(
    spark: SparkSession,
    source: Iterable[Config],
    target: Iterable[Config],
    *,
    excluded: Sequence[str] = (),
    source_defaults: bool = False,
    flags: tuple[bool, bool] = (False, False),
) -> list[tuple[object, ...]]:
    """(config, value, before) of the changes for one topic `t`, which is `A.t` on the target."""
    names = {name for name, _, _ in source}
    found = config_changes(
        frame(spark, CONFIGS, [("t", *config, *flags) for config in source]),
        frame(spark, CONFIGS, [("A.t", *config, False, False) for config in target]),
        frame(spark, TOPICS, [("t", "A.t")]),
        frame(spark, PROPERTIES, [(n, n not in excluded, source_defaults) for n in names]),
    )
    assert found.columns == ["remote", "name", "value", "before"]
    return [row[1:] for row in rows(found)]


def test_configs_are_set_where_they_differ_and_reset_where_the_source_has_its_default(
    spark: SparkSession,
) -> None:
    source = [
        ("retention.ms", "1", TOPIC),
        ("segment.ms", "2", TOPIC),
        ("segment.bytes", "3", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("cleanup.policy", "delete", DEFAULT),
        ("flush.ms", "9", DEFAULT),
        ("max.message.bytes", "100", "STATIC_BROKER_CONFIG"),
        ("of.newer.brokers", "1", TOPIC),
    ]
    target = [
        ("retention.ms", "1", TOPIC),
        ("segment.ms", "5", TOPIC),
        ("segment.bytes", "3", DEFAULT),
        ("cleanup.policy", "compact", TOPIC),
        ("flush.ms", "7", DEFAULT),
        ("max.message.bytes", "200", TOPIC),
    ]
    assert changes(spark, source, target) == [
        ("cleanup.policy", None, "compact"),
        ("segment.bytes", "3", "3"),
        ("segment.ms", "2", "5"),
    ]


def test_names_that_are_excluded_are_never_touched(spark: SparkSession) -> None:
    source = [("a", "1", TOPIC), ("b", "1", DEFAULT)]
    target = [("a", "2", TOPIC), ("b", "2", TOPIC)]
    assert changes(spark, source, target, excluded=["a", "b"]) == []


def test_the_source_s_defaults_are_set_where_they_are_wanted(spark: SparkSession) -> None:
    source = [("a", "1", DEFAULT), ("nothing", None, DEFAULT)]
    target = [("a", "2", DEFAULT), ("nothing", "x", DEFAULT)]
    assert changes(spark, source, target, source_defaults=True) == [("a", "1", "2")]


def test_read_only_and_sensitive_configs_are_left_alone(spark: SparkSession) -> None:
    source, target = [("a", "1", TOPIC)], [("a", "2", TOPIC)]
    assert changes(spark, source, target, flags=(True, False)) == []
    assert changes(spark, source, target, flags=(False, True)) == []


def test_a_topic_that_the_target_lacks_has_no_changes(spark: SparkSession) -> None:
    assert changes(spark, [("a", "1", TOPIC)], []) == []


def test_acls_follow_mirror_maker_s_rules(spark: SparkSession) -> None:
    def acl(
        topic: str, operation: str, permission: str = "ALLOW", pattern: str = "LITERAL"
    ) -> tuple[str, ...]:
        return (topic, pattern, "User:u", "*", operation, permission)

    source = [
        acl("t", "READ"),
        acl("t", "ALL"),
        acl("t", "WRITE"),
        acl("t", "WRITE", "DENY"),
        acl("t", "ALL", "DENY"),
        acl("t", "DESCRIBE"),
        acl("t", "READ", pattern="PREFIXED"),
        acl("other", "READ"),
        acl("*", "READ"),
    ]
    found = acl_plan(
        frame(spark, ACLS, source),
        frame(spark, ACLS, [acl("A.t", "DESCRIBE")]),
        frame(spark, TOPICS, [("t", "A.t"), ("*", "A.*")]),
    )
    assert found.columns == [*ACLS.names, "outcome"]
    assert {(*row[:2], *row[4:]) for row in rows(found)} == {
        ("A.t", "LITERAL", "READ", "ALLOW", "create"),
        ("A.t", "LITERAL", "WRITE", "DENY", "create"),
        ("A.t", "LITERAL", "ALL", "DENY", "create"),
        ("A.t", "LITERAL", "DESCRIBE", "ALLOW", "exists"),
        ("A.*", "LITERAL", "READ", "ALLOW", "create"),
        ("t", "LITERAL", "WRITE", "ALLOW", "write"),
        ("t", "PREFIXED", "READ", "ALLOW", "pattern"),
        ("other", "LITERAL", "READ", "ALLOW", "topic"),
    }


target_states = st.sampled_from([None, "EMPTY", "DEAD", "STABLE", "PREPARING_REBALANCE"])
committed_offsets = st.none() | st.sampled_from([None, 99, 100, 101]).map(
    lambda offset: Committed(offset, "theirs")
)


@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(target_states, st.booleans(), st.lists(committed_offsets, max_size=4)),
        min_size=40,
        max_size=80,
    )
)
def test_group_offsets_are_written_as_for_one_group_alone(
    spark: SparkSession,
    groups: list[tuple[str | None, bool, list[Committed | None]]],
) -> None:
    """Of each group: its state on the target, whether its offsets there could be read, and they."""
    checkpoints, states, committed = {}, {}, {}
    for number, (state, readable, offsets) in enumerate(groups):
        group = f"g{number}"
        checkpoints[group] = {
            ("A.t", p): Checkpoint(group, "A.t", p, 1, 100, f"m{p}") for p in range(4)
        }
        if state is not None:
            states[group] = GroupListing(group, state)
        if state == "EMPTY" and readable:
            committed[group] = {("A.t", p): o for p, o in enumerate(offsets) if o is not None}
    alone = plan_group_offsets(checkpoints, states, committed)
    assert plan_on_spark(spark, checkpoints, states, committed) == alone


REMOTES = {f"t{number}": f"A.t{number}" for number in range(200)}
EVERY_TOPIC = [*REMOTES, "not.mirrored"]
SOURCES = [TOPIC, DEFAULT, "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG"]


def drawn_configs(dice: random.Random, prefix: str = "") -> list[plans.ConfigRow]:
    """Four configs of each topic; some are missing."""
    return [
        (
            prefix + topic,
            name,
            dice.choice([None, "1", "2"]),
            dice.choice(SOURCES),
            dice.random() < 0.1,
            dice.random() < 0.1,
        )
        for topic in EVERY_TOPIC
        for name in "abcd"
        if dice.random() < 0.9
    ]


def drawn_acls(dice: random.Random, prefix: str = "") -> list[Acl]:
    return [
        Acl(
            prefix + dice.choice(EVERY_TOPIC),
            dice.choice(["LITERAL", "LITERAL", "PREFIXED"]),
            dice.choice(["User:a", "User:b"]),
            "*",
            dice.choice(["READ", "WRITE", "ALL", "DESCRIBE"]),
            dice.choice(["ALLOW", "ALLOW", "DENY"]),
        )
        for _ in range(2_000)
    ]


def ordered(plan: plans.Plan) -> list[list[tuple[str, str | None]]]:
    return sorted((sorted(each.items()) for each in plan), key=str)


@settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 32))
def test_the_process_and_spark_change_the_same_configs(spark: SparkSession, seed: int) -> None:
    dice = random.Random(seed)
    source, target = drawn_configs(dice), drawn_configs(dice, "A.")
    properties = [("a", True, False), ("b", True, True), ("c", False, True), ("d", True, False)]
    pairs = list(REMOTES.items())
    found = config_changes_on_spark(spark, source, target, pairs, properties)
    assert found
    assert ordered(found) == ordered(plans.config_changes(source, target, pairs, properties))


@settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 32))
def test_the_process_and_spark_plan_the_same_acls(spark: SparkSession, seed: int) -> None:
    dice = random.Random(seed)
    source, target = drawn_acls(dice), drawn_acls(dice, "A.")
    found = acl_plan_on_spark(spark, source, target, REMOTES)
    assert {each["outcome"] for each in found} == {"create", "exists", "write", "pattern", "topic"}
    assert ordered(found) == ordered(plans.acl_plan(source, target, REMOTES))
