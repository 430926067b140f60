"""Finds the permissions that a flow's users lack, by asking the clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from connect.clients.cluster.missing_permissions import missing_permissions
from connect.clients.permissions import Operation, Permission, Resource
from connect.clock import Deadline
from connectors.mirrormaker.check.report import Finding, Level
from connectors.mirrormaker.required_permissions import (
    Feature,
    FlowNames,
    Pattern,
    RequiredPermission,
    required_permissions,
)

__all__ = ["concrete_names", "permission_findings"]

_ASK_S = 20.0
_OPTIONAL = {
    Feature.OFFSET_MAP: "group offsets are translated only as precisely as by Java",
    Feature.PROVENANCE: "loops are found only by names",
    Feature.HEARTBEATS: "no heartbeats are sent",
    Feature.COPIED_HEARTBEATS: "clients cannot see how far upstream clusters are",
    Feature.NEW_PARTITIONS: "copies get no new partitions",
    Feature.CONFIG_SYNC: "later changes of topic configs are not copied",
    Feature.HEARTBEAT_CONFIG_SYNC: "later changes of topic configs are not copied",
    Feature.ACL_SYNC: "ACLs are not copied; set sync.topic.acls.enabled=false if that is intended",
}
"""Features without which records and group offsets are copied all the same, and what is lost."""
_WORKERS = (Feature.WORKER, Feature.EXACTLY_ONCE)
"""Features for which the worker's own client acts, and not the connector's."""
_CHANGES = (Operation.CREATE, Operation.ALTER, Operation.ALTER_CONFIGS)
_A_TASK = "MirrorSourceConnector-0"


def concrete_names(names: FlowNames, topics: Collection[str], copies: Collection[str]) -> FlowNames:
    """Replace patterns by names that a cluster can be asked about: the topics to copy, those that
    the properties name, and the copies. Groups that only a pattern names are left out."""
    beats = {names.heartbeats, names.copied_heartbeats}
    return replace(
        names,
        topics=_literals(name for name in [*topics, *_plain(names.topics)] if name not in beats),
        copies=_literals(name for name in [*copies, *_plain(names.copies)] if name not in beats),
        groups=_literals(_plain(names.groups)),
    )


def _plain(patterns: Iterable[Pattern]) -> list[str]:
    return [each.name for each in patterns if not each.prefixed and each.name != "*"]


def _literals(names: Iterable[str]) -> tuple[Pattern, ...]:
    return tuple(map(Pattern, dict.fromkeys(names)))


def permission_findings(
    flow: str,
    names: FlowNames,
    features: Collection[Feature],
    worker: Mapping[str, str],
    admins: Mapping[str, Mapping[str, str]],
    *,
    forwarded: bool = False,
) -> Iterator[Finding]:
    """Ask the clusters which permissions of these features are missing.

    `names`: see `concrete_names`. `worker`: client properties of the flow's worker. `admins`:
    those of the connectors, by alias. `forwarded`: a class of the user's own creates and changes
    topics, perhaps without these permissions. One finding for each resource and feature. Raises
    one of `connect.errors`.
    """
    asked: dict[tuple[str, bool], dict[Permission, RequiredPermission]] = {}
    for each in required_permissions(names, features):
        if forwarded and each.feature not in _WORKERS and each.operation in _CHANGES:
            continue
        name = f"{each.pattern.name}{_A_TASK}" if each.pattern.prefixed else each.pattern.name
        question = Permission(each.resource, name, each.operation)
        asked.setdefault((each.cluster, each.feature in _WORKERS), {})[question] = each
    missing: dict[tuple[str, Resource, Pattern, Feature], list[Operation]] = {}
    for (alias, is_worker), wanted in asked.items():
        props = worker if is_worker else admins[alias]
        for question in missing_permissions(props, list(wanted), Deadline(_ASK_S)):
            each = wanted[question]
            key = (alias, each.resource, each.pattern, each.feature)
            missing.setdefault(key, []).append(each.operation)
    for (alias, resource, pattern, feature), operations in missing.items():
        yield _finding(flow, alias, resource, pattern, feature, operations)


def _finding(
    flow: str,
    alias: str,
    resource: Resource,
    pattern: Pattern,
    feature: Feature,
    operations: Collection[Operation],
) -> Finding:
    *others, last = map(str, operations)
    grant = f"{', '.join(others)} and {last}" if others else last
    what = f"{resource.value} {pattern}" if pattern.name else f"the {resource.value}"
    text = (
        f"user of cluster {alias} may not use {what} for the feature {feature.value}; "
        f"grant {grant} on {what}"
    )
    lost = _OPTIONAL.get(feature)
    if lost is None:
        return Finding(Level.ERROR, flow, text)
    return Finding(Level.WARNING, flow, f"{text}; without it, {lost}")
