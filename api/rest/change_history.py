"""Writes who changed which connector of a flow into the flow's history.

Other connectors have no history; the logger `connect.audit` has all changes. Never a body, which
may hold secrets.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from api.rest.routers.mirrors import worker_views
from api.rest.worker_handle import WorkerHandle
from connect.config.types import SecretStr
from connect.errors import ConnectError
from connectors.mirror.history.flow_events import write_event
from connectors.mirror.history.rows import FlowTask, flow_event
from connectors.mirror.plugins import flow_aliases

__all__ = ["ChangeHistory", "ChangedFlow"]

_CONNECTOR = re.compile(r"/connectors/([^/]+)(/.*)?")
_SIGNED = re.compile(r"/(?:tasks|fence)/?")


class ChangedFlow(NamedTuple):
    """A flow with a connector that is changed. `history`: the database's URL, as of the moment of
    asking: deleting a source connector deletes it."""

    connector: str
    source: str
    target: str
    history: SecretStr
    retention_days: int


class ChangeHistory:
    """Records changes of connectors in their flows' histories. Safe to use from any thread."""

    def __init__(self, site: WorkerHandle) -> None:
        self._site = site

    def flow_of(self, path: str) -> ChangedFlow | None:
        """Return the flow whose connector the path of a request names; None if it is no connector
        of a flow with a history. Call it before a request that may delete the connector, and after
        one that creates it."""
        found = _CONNECTOR.fullmatch(path)
        herder = self._site.herder
        if found is None or herder is None or _SIGNED.fullmatch(found[2] or ""):
            return None
        name = unquote(found[1])
        try:
            aliases = flow_aliases(herder.connector_config(name))
            view = None if aliases is None else worker_views(self._site).get("->".join(aliases))
        except ConnectError:
            return None
        if aliases is None or view is None:
            return None
        return ChangedFlow(name, *aliases, view.history, view.retention_days)

    def write(self, flow: ChangedFlow, who: str, method: str, path: str) -> None:
        """Write a change that was made. Waits until it is written, two seconds at most."""
        named = path if _CONNECTOR.fullmatch(path) else f"{path} ({flow.connector})"
        row = flow_event("changed", method, f"{who}: {method} {named}")
        task = FlowTask(flow.connector, 0, flow.source, flow.target)
        write_event(flow.history, flow.retention_days, task, row)
