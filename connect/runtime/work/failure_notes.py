"""Tells the class of a connector that the connector or one of its tasks has failed."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from connect.errors import ConfigError
from connect.plugin import Connector
from connect.runtime.states import InstanceId
from connect.runtime.worker import Worker

__all__ = ["note_failure"]

_log = logging.getLogger(__name__)

_CLASS = "connector.class"


def note_failure(
    worker: Worker, config: Mapping[str, str], instance: InstanceId, trace: str
) -> None:
    """Call `Connector.note_failure` of the class in the connector's config, if there is one."""
    task = instance.task if instance.is_task else None
    try:
        connector_class = _class_to_tell(worker, config)
        if connector_class is not None:
            connector_class.note_failure(config, instance.connector, task, trace)
    except Exception:  # noqa: BLE001 - a plugin's
        _log.exception(
            "Noting the failure of connector %s failed; this is a defect of the plugin: report it "
            "to its author, with the trace",
            instance.connector,
        )


def _class_to_tell(worker: Worker, config: Mapping[str, str]) -> type[Connector] | None:
    """Return the class; None if there is none, or if the worker does not permit the config: it
    failed for that, and may name files and hosts that the class must not use."""
    if _CLASS not in config:
        return None
    try:
        connector_class = worker.plugins.connector(config[_CLASS])
        worker.permissions.check(connector_class, config)
    except ConfigError:
        return None
    return connector_class
