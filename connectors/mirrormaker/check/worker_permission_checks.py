"""Finds the permissions that a worker of Connect and its connectors lack, by asking the
clusters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from connect.clients.permissions import Operation, Resource
from connect.config.worker import WorkerConfig
from connect.runtime.plugins.connector_clients import ClientProperties, ConnectorClients
from connectors.mirror.config import clients as client_configs
from connectors.mirrormaker.check.permission_checks import concrete_names, missing_findings
from connectors.mirrormaker.check.report import Finding, Level
from connectors.mirrormaker.required_permissions import (
    Feature,
    FlowNames,
    Pattern,
    RequiredPermission,
    required_permissions,
)
from connectors.mirrormaker.worker_permissions import (
    WORKER,
    WorkerConnector,
    connector_features,
    connector_names,
)

__all__ = ["connector_findings", "worker_findings"]

_ROLE = "check"
_BY_PRODUCER = (Feature.COPYING, Feature.COPIED_HEARTBEATS, Feature.HEARTBEATS)
"""Features of mirrors whose records on the target are written by the connector's producer."""


def worker_findings(
    config: WorkerConfig, wanted: Collection[RequiredPermission]
) -> Iterator[Finding]:
    """Ask the worker's cluster which of these permissions of the worker itself are missing. Raises
    one of `connect.errors`."""
    own, producer = config.own_client_properties(_ROLE), config.task_producer_properties(_ROLE)

    def client_of(each: RequiredPermission) -> Mapping[str, str]:
        of_tasks = each.resource is Resource.TRANSACTIONAL_ID and each.pattern.prefixed
        return producer if of_tasks else own

    yield from missing_findings(WORKER, wanted, client_of)


def connector_findings(clients: ConnectorClients, connector: WorkerConnector) -> Iterator[Finding]:
    """Ask the clusters which permissions of the connector are missing. What only a pattern names
    is not asked about. Raises one of `connect.errors`."""
    if connector.writes_unknown_topics:
        yield Finding(
            Level.NOTE,
            connector.name,
            "its config does not name the topics that it writes to, so whether it may is not "
            "checked; it needs Create and Write on them",
        )
    names = concrete_names(connector_names(clients.config, connector), (), ())
    wanted = required_permissions(names, connector_features(connector))
    own = clients.of(connector.name, connector.kind, connector.props)
    client_of = _of_records if names.source == WORKER else _of_mirror
    yield from missing_findings(connector.name, wanted, client_of(names, connector, own))


def _of_records(
    _: FlowNames, connector: WorkerConnector, own: ClientProperties
) -> Callable[[RequiredPermission], Mapping[str, str]]:
    """Return what finds the client of a sink's or a source's permission."""
    creates = any(key.startswith("topic.creation.") for key in connector.props)

    def client_of(each: RequiredPermission) -> Mapping[str, str]:
        if each.feature is Feature.SINK:
            return own.consumer(_ROLE)
        by_admin = creates or each.feature is Feature.DEAD_LETTERS
        if each.operation is Operation.CREATE and by_admin:
            return own.admin(_ROLE)
        return own.producer(_ROLE)

    return client_of


def _of_mirror(
    names: FlowNames, connector: WorkerConnector, own: ClientProperties
) -> Callable[[RequiredPermission], Mapping[str, str]]:
    """Return what finds the client of a mirror connector's permission."""
    source = client_configs.source_admin(connector.props)
    target = client_configs.target_admin(connector.props)
    records = {*names.copies, Pattern(names.heartbeats), Pattern(names.copied_heartbeats)}

    def client_of(each: RequiredPermission) -> Mapping[str, str]:
        if each.cluster == names.source:
            return source
        is_record = each.operation is Operation.WRITE and each.pattern in records
        return own.producer(_ROLE) if is_record and each.feature in _BY_PRODUCER else target

    return client_of
