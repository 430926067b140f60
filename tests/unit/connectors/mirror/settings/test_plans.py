"""Config and ACL sync in the process. `tests/integration/spark/test_spark_settings_jobs.py` holds
Spark to the same answers."""

from __future__ import annotations

from connect.clients.librdkafka.acls import Acl
from connectors.mirror.settings.plans import ConfigRow, acl_plan, config_changes

TOPIC, DEFAULT = "DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"


def row(topic: str, name: str, value: str | None, source: str = TOPIC) -> ConfigRow:
    return (topic, name, value, source, False, False)


def test_configs_are_set_where_they_differ_and_reset_where_the_source_has_its_default() -> None:
    source = [
        row("t", "retention.ms", "1"),
        row("t", "segment.ms", "2"),
        row("t", "cleanup.policy", "delete", DEFAULT),
        row("t", "flush.ms", "9", DEFAULT),
        row("t", "max.message.bytes", "100", "STATIC_BROKER_CONFIG"),
        row("t", "of.newer.brokers", "1"),
        row("not.mirrored", "segment.ms", "2"),
    ]
    target = [
        row("A.t", "retention.ms", "1"),
        row("A.t", "segment.ms", "5"),
        row("A.t", "cleanup.policy", "compact"),
        row("A.t", "flush.ms", "7", DEFAULT),
        row("A.t", "max.message.bytes", "200"),
    ]
    properties = [(name, True, False) for _, name, *_ in source]
    assert config_changes(source, target, [("t", "A.t")], properties) == [
        {"remote": "A.t", "name": "segment.ms", "value": "2", "before": "5"},
        {"remote": "A.t", "name": "cleanup.policy", "value": None, "before": "compact"},
    ]


def test_an_excluded_config_and_a_read_only_one_are_left_alone() -> None:
    target = [row("A.t", "a", "2"), row("A.t", "b", "2")]
    source = [row("t", "a", "1"), ("t", "b", "1", TOPIC, True, False)]
    properties = [("a", False, True), ("b", True, True)]
    assert config_changes(source, target, [("t", "A.t")], properties) == []


def test_all_becomes_read_and_write_is_left_out() -> None:
    def acl(topic: str, operation: str, permission: str = "ALLOW") -> Acl:
        return Acl(topic, "LITERAL", "User:u", "*", operation, permission)

    source = [acl("t", "ALL"), acl("t", "READ"), acl("t", "WRITE"), acl("other", "READ")]
    plan = acl_plan(source, [acl("A.t", "DESCRIBE")], {"t": "A.t"})
    assert [(each["topic"], each["operation"], each["outcome"]) for each in plan] == [
        ("A.t", "READ", "create"),
        ("t", "WRITE", "write"),
        ("other", "READ", "topic"),
    ]
