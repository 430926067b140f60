"""mm2.properties as a whole: which flows run, what is refused, and what is warned about."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.mirror.config.engine import copies_on_spark
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import check_source, plan_flows

BASE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
}


def config(**more: str) -> MirrorMakerConfig:
    return MirrorMakerConfig.from_properties(BASE | more)


def of(props: dict[str, str]) -> MirrorMakerConfig:
    return MirrorMakerConfig.from_properties(BASE | props)


def flows(made: MirrorMakerConfig, targets: list[str] | None = None) -> list[str]:
    return [str(flow) for flow in made.flows(targets)]


def test_pairs_that_do_not_mirror_still_send_heartbeats() -> None:
    made = config()
    assert flows(made) == ["A->B", "B->A"]
    assert [made.mirrors(flow) for flow in made.flows()] == [True, False]


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        ({"emit.heartbeats.enabled": "false"}, ["A->B"]),
        ({"B->A.emit.heartbeats.enabled": "false"}, ["A->B"]),
        (
            {"emit.heartbeats.enabled": "false", "B->A.emit.heartbeats.enabled": "true"},
            ["A->B", "B->A"],
        ),
        (
            {"A->B.enabled": "false", "emit.heartbeats.enabled": "False", "B->A.enabled": "true"},
            ["B->A"],
        ),
    ],
)
def test_heartbeats_decide_for_pairs_that_do_not_mirror(
    props: dict[str, str], expected: list[str]
) -> None:
    assert flows(of(props)) == expected


def test_only_flows_into_the_named_clusters_run() -> None:
    assert flows(config(), ["A"]) == ["B->A"]
    assert flows(config(), ["A", "B"]) == ["A->B", "B->A"]


@pytest.mark.parametrize(
    ("props", "targets", "message"),
    [
        ({}, ["C"], "Invalid value C for configuration --clusters: must be one of clusters=A,B"),
        ({"emit.heartbeats.enabled": "false"}, ["A"], "Nothing to run into A"),
        ({"clusters": "A"}, None, "Nothing to run"),
        ({"A->B.enabled": "yes"}, None, "Invalid value yes for configuration A->B.enabled"),
        (
            {"B.bootstrap.servers": " "},
            None,
            'Missing required configuration "B.bootstrap.servers" which has no default value.',
        ),
    ],
)
def test_what_cannot_run_is_said(
    props: dict[str, str], targets: list[str] | None, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        of(props).flows(targets)
    assert message in str(caught.value)


def test_clusters_are_required_and_each_counts_once() -> None:
    with pytest.raises(ConfigError, match='Missing required configuration "clusters"'):
        MirrorMakerConfig.from_properties({})
    assert of({"clusters": "A, B, A"}).clusters == ("A", "B")


def test_metrics_are_served_on_loopback_unless_told_otherwise() -> None:
    assert config().metrics_listener == "http://127.0.0.1:9404"
    assert of({"metrics.listener": ""}).metrics_listener == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [("topics.blacklist", "topics.exclude"), ("groups.blacklist", "groups.exclude")],
)
@pytest.mark.parametrize("level", ["", "A->B.", "A."])
def test_old_names_are_taken_with_a_warning(old: str, new: str, level: str) -> None:
    made = of({level + old: "secret.*"})
    connector = made.connector_config("A", "B", "MirrorSourceConnector")
    assert old not in connector
    if level != "A.":
        assert connector[new] == "secret.*"
    assert f"{level}{old} is the old name of {level}{new}; rename it" in made.warnings


def test_the_new_name_counts_where_both_are_set() -> None:
    made = of({"topics.blacklist": "old", "topics.exclude": "new"})
    assert made.connector_config("A", "B", "MirrorSourceConnector")["topics.exclude"] == "new"
    assert any("it is ignored because" in warning for warning in made.warnings)


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        (
            "offset.flush.interval.ms",
            "no effect at the top level; write <target cluster>.offset",
        ),
        ("exactly.once.source.support", "write <target cluster>.exactly.once.source.support"),
        ("producer.linger.ms", "write <cluster>.producer.linger.ms for each cluster"),
        ("use.defaults.from", "write <source>-><target>.use.defaults.from"),
        ("source.consumer.fetch.min.bytes", "write <source>-><target>.source.consumer.fetch"),
        ("refresh.topic.interval.seconds", "did you mean refresh.topics.interval.seconds?"),
        ("task.max", None),
        ("A->B.topcis", "is unknown and has no effect; did you mean A->B.topics?"),
        ("A->B.offset.flush.interval.ms", "does not apply to the worker; write B.offset.flush"),
        ("A->B.producer.linger.ms", "applies only to the producer of offset syncs; for copied"),
        ("A->B.producer.override.lingr.ms", "did you mean ...producer.linger.ms?"),
        ("A->B.source.cluster.linger.ms", "only bootstrap and security properties"),
        ("A->C.enabled", "has no effect: not among clusters=A,B: C"),
        ("A->A.enabled", "source and target of A->A are the same cluster"),
        (
            "A.topics",
            "has no effect for a cluster; write <source>-><target>.topics for a flow of A",
        ),
        ("A.consumer.isolation.levels", "did you mean ...consumer.isolation.level?"),
        ("B.bootstrap.server", "did you mean B.bootstrap.servers?"),
        ("B.metrics.listener", "has no effect for a cluster; write metrics.listener at the top"),
        ("ssl.keystore.lokation", "did you mean ssl.keystore.location?"),
        ("whatever.this.is", "is unknown and has no effect"),
    ],
)
def test_keys_without_effect_are_pointed_out(key: str, advice: str | None) -> None:
    found = [warning for warning in of({key: "hunter2"}).warnings if warning.startswith(key)]
    if advice is None:
        assert found == []
    else:
        assert len(found) == 1
        assert advice in found[0]
        assert "hunter2" not in found[0]


@pytest.mark.parametrize(
    "key",
    [
        "A->B.topics",
        "A->B.producer.override.batch.size",
        "A->B.source.consumer.fetch.min.bytes",
        "A->B.target.cluster.ssl.protocol",
        "A->B.use.defaults.from",
        "A->B.topic.creation.default.partitions",
        "A.consumer.isolation.level",
        "A.client.id",
        "A.ssl.truststore.location",
        "B.offset.flush.interval.ms",
        "B.exactly.once.source.support",
        "B.producer.compression.zstd.level",
        "B.offset.storage.min.insync.replicas",
        "B.admin.retries",
        "config.providers.x.param.y",
        "dedicated.mode.enable.internal.rest",
        "heartbeats.topic.replication.factor",
        "listeners",
        "mirror.copy.buffer.bytes",
        "offset.storage.replication.factor",
        "replication.policy.separator",
        "sasl.mechanism",
        "tasks.max",
    ],
)
def test_keys_with_effect_are_left_alone(key: str) -> None:
    assert of({key: "x" if key.endswith("rest") is False else "true"}).warnings == ()


def test_a_clusters_own_value_that_the_top_level_beats_is_pointed_out() -> None:
    key = "offset.storage.replication.factor"
    assert of({key: "1", f"B.{key}": "2"}).warnings == (
        f"B.{key} has no effect: {key} at the top level overrides it",
    )


def test_a_config_that_only_sends_heartbeats_is_pointed_out() -> None:
    made = of({"A->B.enabled": "false"})
    assert "no flow is enabled, so only heartbeats are sent; set A->B.enabled=true to mirror" in (
        made.warnings
    )


def test_an_alias_with_the_separator_in_it_is_pointed_out() -> None:
    made = MirrorMakerConfig.from_properties(
        {"clusters": "us.west,B", "us.west->B.enabled": "true"}
    )
    assert any("the alias us.west contains the separator ." in one for one in made.warnings)


def write(tmp_path: Path, *lines: str) -> MirrorMakerConfig:
    path = tmp_path / "mm2.properties"
    path.write_text("\n".join([*(f"{key}={value}" for key, value in BASE.items()), *lines]))
    return MirrorMakerConfig.from_file(path)


def test_a_key_that_comes_twice_is_pointed_out_with_its_lines(tmp_path: Path) -> None:
    made = write(tmp_path, "tasks.max=1", "tasks.max=2")
    assert made.warnings == (
        "tasks.max is set on line 5 and again on line 6; the last one is used",
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "A->B.tasks.max=many",
            "Invalid value many for configuration A->B.tasks.max (line 5): Not a number of",
        ),
        (
            "refresh.topics.interval.seconds=0",
            "Invalid value 0 for configuration refresh.topics.interval.seconds (line 5): Value",
        ),
        (
            "B.offset.flush.interval.ms=soon",
            "Invalid value soon for configuration B.offset.flush.interval.ms (line 5): Not a",
        ),
        (
            "B.producer.compression.type=brotli",
            "Invalid value brotli for configuration B.producer.compression.type (line 5): String",
        ),
        (
            "A.consumer.fetch.min.bytes=x",
            "Invalid value x for configuration A.consumer.fetch.min.bytes (line 5): Not a number",
        ),
        (
            "A.security.protocol=TLS",
            "Invalid value TLS for configuration A.security.protocol (line 5): String must be one",
        ),
        (
            "A->B.producer.linger.ms=x",
            "Invalid value x for configuration A->B.producer.linger.ms (line 5): Not a number",
        ),
        (
            "A.bootstrap.servers=nowhere",
            "Invalid value nowhere for configuration A.bootstrap.servers (line 5): must be host",
        ),
        (
            "mirror.history.url=nowhere",
            "Invalid value [hidden] for configuration mirror.history.url (line 5): not an SQL",
        ),
        ("topics=a,,b", "Configuration 'topics (line 5)' values must not be empty."),
    ],
)
def test_a_wrong_value_is_named_as_it_stands_in_the_file(
    tmp_path: Path, line: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        write(tmp_path, line).validate()
    assert message in str(caught.value)


def test_secrets_are_in_no_error(tmp_path: Path) -> None:
    made = write(
        tmp_path,
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        "sasl.jaas.config=PlainLoginModule required password=hunter2;",
    )
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config \(line 7\)") as caught:
        made.validate()
    assert "hunter2" not in str(caught.value)


def test_what_a_provider_gave_is_in_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MM_TEST_SECRET", "hunter2")
    made = write(
        tmp_path,
        "config.providers=env",
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "A->B.tasks.max=${env:MM_TEST_SECRET}",
    )
    with pytest.raises(ConfigError) as caught:
        made.validate()
    assert str(caught.value) == (
        "Invalid value ${env:MM_TEST_SECRET} for configuration A->B.tasks.max (line 7): "
        "Not a number of type INT"
    )
    assert caught.value.__cause__ is None


def test_what_a_cluster_lacks_is_said_with_its_name(tmp_path: Path) -> None:
    made = write(tmp_path, "B.security.protocol=SASL_SSL", "B.sasl.mechanism=PLAIN")
    with pytest.raises(ConfigError, match=r'^Cluster B: Missing required .*"sasl\.jaas\.config"'):
        made.validate()


def test_a_good_config_passes(tmp_path: Path) -> None:
    write(tmp_path, "replication.factor=1", "A.consumer.isolation.level=read_committed").validate()


def test_checkpoints_that_cannot_work_stop_nothing_else(tmp_path: Path) -> None:
    """MirrorMaker 2 leaves the checkpoint connector out and runs the others."""
    write(tmp_path, "emit.checkpoints.enabled=false").validate()


def test_the_copy_on_spark_can_write_exactly_once() -> None:
    made = of(
        {
            "A->B.mirror.engine": "spark",
            "A.consumer.isolation.level": "read_committed",
            "B.exactly.once.source.support": "enabled",
            "emit.heartbeats.enabled": "false",
        }
    )
    (plan,) = plan_flows(made)
    check_source(made, plan)


def test_naming_a_spark_cluster_is_enough_for_a_copy_there() -> None:
    made = of({"spark.master": "spark://host:7077"})
    assert copies_on_spark(made.connector_config("A", "B", "MirrorSourceConnector"))


TWO_FLOWS = {
    "clusters": "A, B, C",
    "C.bootstrap.servers": "c:9092",
    "A->B.enabled": "true",
    "A->C.enabled": "true",
}


@pytest.mark.parametrize(
    "named",
    [
        {"A->B.spark.master": "spark://b:7077", "A->C.spark.master": "spark://c:7077"},
        {"A->B.spark.master": "spark://b:7077", "A->C.mirror.engine": "spark"},
        {"A->B.spark.master": "spark://b:7077", "A->C.spark.master": "local[2]"},
        {"spark.master": "spark://b:7077", "A->C.spark.executor.memory": "4g"},
        {
            "mirror.engine": "worker",
            "A->B.spark.master": "spark://b:7077",
            "A->C.spark.master": "spark://c:7077",
        },
    ],
)
def test_flows_of_a_process_that_name_different_sparks_are_refused(named: dict[str, str]) -> None:
    made = of({**TWO_FLOWS, **named})
    with pytest.raises(ConfigError, match="a process has one Spark session") as raised:
        plan_flows(made)
    assert raised.value.key is not None
    assert raised.value.key.startswith("A->C.spark.")
    plan_flows(made, ["B"])


def test_the_values_of_secret_spark_properties_are_not_told() -> None:
    made = of({**TWO_FLOWS, "A->B.spark.s.password": "one", "A->C.spark.s.password": "two"})
    with pytest.raises(ConfigError) as raised:
        plan_flows(made)
    assert "one" not in str(raised.value).split("but a process")[0]
    assert raised.value.value is None


def test_a_flow_on_spark_connect_is_copied_by_its_workers() -> None:
    plan = plan_flows(of({"spark.remote": "sc://host"}))[0]
    assert not copies_on_spark(plan.connectors["MirrorSourceConnector"])


def test_a_copy_through_spark_connect_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError) as raised:
        plan_flows(of({"spark.remote": "sc://host", "mirror.engine": "spark"}))
    assert str(raised.value) == (
        "The copy of records with mirror.engine=spark cannot run through Spark Connect "
        "(spark.remote=sc://host), because it needs a Spark driver of this process: set "
        "mirror.engine=worker, or spark.master instead of spark.remote"
    )


@pytest.mark.parametrize(
    "named",
    [
        {"spark.master": "spark://b:7077"},
        {"A->B.spark.master": "spark://b:7077"},
    ],
)
def test_flows_that_name_one_spark_or_none_are_not(named: dict[str, str]) -> None:
    plan_flows(of({**TWO_FLOWS, **named}))
