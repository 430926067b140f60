"""Writes who changed which connector of a flow into the flow's history.

Other connectors have no history; the logger `connect.audit` has all changes. Never a body, which
may hold secrets.
"""

from __future__ import annotations

import logging
import re
from urllib.parse import unquote

from api.rest.routers.mirrors import worker_views
from api.rest.worker_handle import WorkerHandle
from connect.errors import ConnectError
from connectors.mirror.history.database import open_history
from connectors.mirror.history.rows import FlowTask, flow_event
from connectors.mirror.plugins import flow_aliases

__all__ = ["ChangeHistory"]

log = logging.getLogger(__name__)

_CONNECTOR = re.compile(r"/connectors/([^/]+)(/.*)?")
_SIGNED = re.compile(r"/(?:tasks|fence)/?")


class ChangeHistory:
    """Safe to use from any thread."""

    def __init__(self, site: WorkerHandle) -> None:
        self._site = site

    def flow_of(self, path: str) -> tuple[str, str] | None:
        """Return the aliases of the flow whose connector a request changes; None if it is no
        mirror connector. Call it before the request, which may delete the connector."""
        found = _CONNECTOR.fullmatch(path)
        herder = self._site.herder
        if found is None or herder is None or _SIGNED.fullmatch(found[2] or ""):
            return None
        try:
            return flow_aliases(herder.connector_config(unquote(found[1])))
        except ConnectError:
            return None

    def write(self, flow: tuple[str, str], who: str, method: str, path: str) -> None:
        """Write a change that was made. Waits until it is written, two seconds at most."""
        try:
            view = worker_views(self._site).get("->".join(flow))
            history = None if view is None else open_history(view.history, view.retention_days)
        except ConnectError as error:
            log.debug("The change is not in the history: %s", error)
            return
        if history is None:
            return
        name = unquote(path.split("/")[2])
        row = flow_event("changed", method, f"{who}: {method} {path}")
        history.add(FlowTask(name, 0, *flow), row)
        history.close()
