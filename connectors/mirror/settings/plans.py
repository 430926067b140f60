"""Config and ACL sync computed in the process.

The answers are those of the Spark jobs (`connectors.mirror.spark.settings_plans`, which explains
the rules); a test compares both on random input. Rows are those of the jobs' tables
(`connectors.mirror.spark.tables`). Source: KIP-382 and Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from connect.clients.librdkafka.acls import Acl

__all__ = ["ConfigRow", "Plan", "PropertyRow", "acl_plan", "config_changes"]

ConfigRow = tuple[str, str, str | None, str, bool, bool]
"""topic, name, value, source (Java's ConfigSource), read only, sensitive"""
PropertyRow = tuple[str, bool, bool]
"""name, whether it is copied, whether the source's default of it is"""
Plan = list[dict[str, str | None]]


def config_changes(
    source: Iterable[ConfigRow],
    target: Iterable[ConfigRow],
    topics: Iterable[tuple[str, str]],
    properties: Iterable[PropertyRow],
) -> Plan:
    """Return what to change on the target: `remote`, `name`, `value` (None: back to the target's
    default) and `before`. `topics`: names on the source and on the target."""
    remotes = dict(topics)
    default_copied = {name: default for name, copied, default in properties if copied}
    has = {
        (topic, name): (value, kind == "DYNAMIC_TOPIC_CONFIG")
        for topic, name, value, kind, read_only, _ in target
        if not read_only
    }
    changes: Plan = []
    for topic, name, value, kind, read_only, sensitive in source:
        remote = remotes.get(topic)
        there = None if remote is None else has.get((remote, name))
        if there is None or name not in default_copied:
            continue
        if read_only or sensitive or kind == "STATIC_BROKER_CONFIG":
            continue
        before, own = there
        if kind == "DEFAULT_CONFIG" and not default_copied[name]:
            if own:
                changes.append({"remote": remote, "name": name, "value": None, "before": before})
        elif value is not None and not (own and value == before):
            changes.append({"remote": remote, "name": name, "value": value, "before": before})
    return changes


def acl_plan(source: Iterable[Acl], target: Collection[Acl], topics: Mapping[str, str]) -> Plan:
    """Return each entry as it is to be on the target, once, and its `outcome`: `create`, `exists`,
    or why it is not mirrored (`write`, `pattern`, `topic`). `topics`: the mirrored topics among
    the names in the source's entries, with their names on the target."""
    there = set(target)
    plan: dict[tuple[Acl, str], None] = {}
    for acl in source:
        outcome = _why_not_mirrored(acl, topics)
        if outcome is not None:
            plan[acl, outcome] = None
            continue
        wanted = acl._replace(topic=topics[acl.topic])
        if wanted.permission == "ALLOW" and wanted.operation == "ALL":
            wanted = wanted._replace(operation="READ")
        plan[wanted, "exists" if wanted in there else "create"] = None
    return [{**acl._asdict(), "outcome": outcome} for acl, outcome in plan]


def _why_not_mirrored(acl: Acl, topics: Mapping[str, str]) -> str | None:
    if acl.pattern != "LITERAL":
        return "pattern"
    if acl.permission == "ALLOW" and acl.operation == "WRITE":
        return "write"
    return None if acl.topic in topics else "topic"
