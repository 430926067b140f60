"""What a worker's file and those of connectors need, for `acls`. Contacts no cluster."""

from __future__ import annotations

from collections.abc import Sequence

from api.cli.worker_command import worker_properties
from api.cli.worker_start.connectors import worker_connectors
from api.cli.worker_start.plugins import plugin_registry
from connect.config.worker import WorkerConfig
from connect.runtime.distributed.group_config import DistributedConfig
from connectors.mirror.config import clients as client_configs
from connectors.mirrormaker.required_permissions import (
    RequiredPermission,
    by_cluster,
    required_permissions,
)
from connectors.mirrormaker.worker_permissions import (
    WORKER,
    connector_features,
    connector_names,
    worker_permissions,
)

__all__ = ["needed_by_worker"]

_ROLE = "acls"


def needed_by_worker(
    location: str, connectors: Sequence[str]
) -> tuple[dict[str, str], dict[str, list[RequiredPermission]]]:
    """Return bootstrap servers and permissions by cluster: `WORKER`, or the alias that a mirror's
    connector has for it.

    `location`: a worker's properties; with a `group.id` those of a distributed worker.
    `connectors`: their files. Raises `ConfigError`.
    """
    props = worker_properties(location)
    in_group = "group.id" in props
    config = WorkerConfig.from_properties(props) if in_group else WorkerConfig.for_standalone(props)
    servers = {WORKER: config.own_client_properties(_ROLE).get("bootstrap.servers", "")}
    wanted: list[RequiredPermission] = []
    if in_group:
        group = DistributedConfig.from_properties(props)
        wanted += worker_permissions(group, config.offset_storage_topic)
    for each in worker_connectors(config, connectors, plugin_registry(props)):
        names = connector_names(config, each)
        wanted += required_permissions(names, connector_features(each))
        if names.source != WORKER:
            for alias, admin in (
                (names.source, client_configs.source_admin),
                (names.target, client_configs.target_admin),
            ):
                servers[alias] = admin(each.props).get("bootstrap.servers", "")
    return servers, by_cluster(wanted)
