"""State that the handlers of one worker's REST API share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from connect.clients.rest_client import RestClient
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.runtime.herder import Herder

__all__ = ["STARTING", "WorkerHandle"]

log = logging.getLogger(__name__)

STARTING = "Worker is still starting up."


@dataclass
class WorkerHandle:
    """One worker as its REST API sees it. The owner sets `starting` while the herder starts,
    `herder` once it has started, and `ready` once the connectors of the command line run."""

    metrics: MetricRegistry
    client: RestClient = field(default_factory=RestClient)
    starting: Herder | None = None
    herder: Herder | None = None
    ready: bool = False
    trouble: Callable[[], str | None] = lambda: None
    """Returns why the worker's cluster is unreachable; None if it is not."""

    def stage(self) -> str | None:
        """Return the herder's current activity, for messages; None if it does not report one."""
        herder = self.herder or self.starting
        if herder is None:
            return None
        try:
            return herder.health().stage
        except ConnectError as error:
            log.debug("Cannot get the herder's current activity: %s", error)
            return None
