"""Finds the permissions that the users of a flow or a worker lack, by asking the clusters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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

__all__ = ["concrete_names", "missing_findings", "permission_findings"]

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
    """Ask the clusters which permissions of these features of a flow are missing.

    `names`: see `concrete_names`. `worker`: client properties of the flow's worker. `admins`:
    those of the connectors, by alias. `forwarded`: a class of the user's own creates and changes
    topics, perhaps without these permissions. Raises one of `connect.errors`.
    """
    wanted = (
        each
        for each in required_permissions(names, features)
        if not forwarded or each.feature in _WORKERS or each.operation not in _CHANGES
    )
    return missing_findings(
        flow, wanted, lambda each: worker if each.feature in _WORKERS else admins[each.cluster]
    )


def missing_findings(
    subject: str,
    wanted: Iterable[RequiredPermission],
    client_of: Callable[[RequiredPermission], Mapping[str, str]],
) -> Iterator[Finding]:
    """Ask the clusters which of these permissions are missing.

    `wanted`: with names that a cluster can be asked about, see `concrete_names`. `client_of`: the
    properties of the client that needs a permission. One finding for each resource and feature.
    Raises one of `connect.errors`.
    """
    asked: dict[frozenset[tuple[str, str]], dict[Permission, RequiredPermission]] = {}
    for each in wanted:
        name = f"{each.pattern.name}{_A_TASK}" if each.pattern.prefixed else each.pattern.name
        question = Permission(each.resource, name, each.operation)
        asked.setdefault(frozenset(client_of(each).items()), {})[question] = each
    missing: dict[tuple[str, Resource, Pattern, Feature], list[Operation]] = {}
    for props, questions in asked.items():
        for question in missing_permissions(dict(props), list(questions), Deadline(_ASK_S)):
            each = questions[question]
            key = (each.cluster, each.resource, each.pattern, each.feature)
            missing.setdefault(key, []).append(each.operation)
    for (alias, resource, pattern, feature), operations in missing.items():
        yield _finding(subject, alias, resource, pattern, feature, operations)


def _finding(
    subject: str,
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
        return Finding(Level.ERROR, subject, text)
    return Finding(Level.WARNING, subject, f"{text}; without it, {lost}")
