"""What is found wrong with topics before a flow runs."""

from __future__ import annotations

from connect.clients.librdkafka.descriptions import ConfigEntry, ConfigSource
from connectors.mirrormaker.check.report import Level
from connectors.mirrormaker.check.topic_checks import (
    CopyConfigs,
    age_finding,
    config_findings,
    older_records,
    replication_findings,
    time_limits,
    topic_defaults,
)

DAY_MS = 86_400_000


def copy(source: dict[str, str], target: dict[str, str]) -> CopyConfigs:
    return CopyConfigs("t", "A.t", source, target)


def test_more_replicas_than_brokers_is_one_finding_for_each_key() -> None:
    wanted = [
        ("replication.factor", "A.a", 3, 1),
        ("replication.factor", "A.b", 3, 1),
        ("replication.factor", "A.ok", 1, 1),
        ("heartbeats.topic.replication.factor", "heartbeats", 3, 2),
    ]
    first, second = replication_findings("A->B", wanted)
    assert first.level is Level.ERROR
    assert first.text == (
        "A.a, A.b cannot be created: replication factor 3 needs 3 brokers, but the cluster has 1; "
        "set replication.factor to 1 or less"
    )
    assert second.text.endswith("has 2; set heartbeats.topic.replication.factor to 2 or less")
    assert replication_findings("A->B", [("replication.factor", "A.a", -1, 1)]) == []


def test_smaller_batches_on_the_target_are_a_warning() -> None:
    (finding,) = config_findings(
        copy({"max.message.bytes": "2000"}, {"max.message.bytes": "1000"}), None
    )
    assert finding.level is Level.WARNING
    assert "up to 1000 bytes, its source up to 2000" in finding.text
    same = copy({"max.message.bytes": "1000"}, {"max.message.bytes": "1000"})
    assert config_findings(same, None) == []


def test_fewer_replicas_than_must_be_in_sync_is_an_error() -> None:
    strict = copy({}, {"min.insync.replicas": "2"})
    (finding,) = config_findings(strict, 1)
    assert finding.level is Level.ERROR
    assert config_findings(strict, 2) == []
    assert config_findings(strict, -1) == []
    assert config_findings(strict, None) == []


def test_ages_are_limited_where_the_target_keeps_less() -> None:
    week = {"retention.ms": str(7 * DAY_MS), "cleanup.policy": "delete"}
    forever = {"retention.ms": "-1", "cleanup.policy": "delete"}
    compacted = {"retention.ms": str(7 * DAY_MS), "cleanup.policy": "compact"}
    assert time_limits(copy(forever, week)) == {"retention.ms": 7 * DAY_MS}
    assert time_limits(copy(compacted, week)) == {"retention.ms": 7 * DAY_MS}
    assert time_limits(copy(week, week)) == {}
    assert time_limits(copy(week, forever)) == {}
    assert time_limits(copy(forever, compacted)) == {}


def test_a_bound_on_old_timestamps_always_counts() -> None:
    key = "message.timestamp.before.max.ms"
    assert time_limits(copy({key: "5"}, {key: "5"})) == {key: 5}
    assert time_limits(copy({}, {key: str(2**63 - 1)})) == {}


def test_old_records_are_counted_by_offsets() -> None:
    beginning = {("t", 0): 10, ("t", 1): 0, ("t", 2): 5, ("t", 3): 7}
    end = {("t", 0): 100, ("t", 1): 40, ("t", 2): 5, ("t", 3): 9}
    young = {("t", 0): 30, ("t", 1): -1, ("t", 2): -1, ("t", 3): 7}
    assert older_records(beginning, end, young) == 20 + 40 + 0 + 0


def test_an_age_finding_says_what_happens_and_to_how_many() -> None:
    finding = age_finding(copy({}, {}), "retention.ms", 7 * DAY_MS, 12)
    assert finding.text.startswith("about 12 records of t are older than retention.ms=604800000")
    assert "(7.0 days): the target deletes them" in finding.text


def test_defaults_are_learned_from_what_nobody_set() -> None:
    def entry(value: str, source: ConfigSource) -> ConfigEntry:
        return ConfigEntry("retention.ms", value, source, False, False)

    described = {
        "x": [entry("1", ConfigSource.DYNAMIC_TOPIC_CONFIG)],
        "y": [entry("2", ConfigSource.STATIC_BROKER_CONFIG)],
    }
    assert topic_defaults(described) == {"retention.ms": "2"}
