"""State that the handlers of one worker's REST API share."""

from __future__ import annotations

import logging
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
    """One worker as its REST API sees it. The owner sets `herder` once it has started, and `ready`
    once what it was told to run at start runs."""

    metrics: MetricRegistry
    client: RestClient = field(default_factory=RestClient)
    herder: Herder | None = None
    ready: bool = False

    def stage(self) -> str | None:
        """What the herder is doing, for messages; None where it does not say."""
        if self.herder is None:
            return None
        try:
            return self.herder.health().stage
        except ConnectError as error:
            log.debug("The herder does not say what it is doing: %s", error)
            return None
