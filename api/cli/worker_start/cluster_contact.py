"""Says within seconds why a worker's cluster is unreachable, while the worker starts.

Clients of librdkafka retry without a reason, until a timeout of a minute or more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from connect.clients.groups.bootstrap_probe import why_unreachable
from connect.clock import Deadline
from connect.errors import ConnectError

__all__ = ["ClusterContact", "unreachable"]

_ATTEMPT_S = 5.0
_AGAIN_S = 3.0

log = logging.getLogger(__name__)


def unreachable(client: Mapping[str, str]) -> str | None:
    """Return a sentence with the addresses and the cause if no broker accepts a client with these
    properties; None if one does. Takes a few seconds at most."""
    servers = client.get("bootstrap.servers", "")
    try:
        cause = why_unreachable(client, Deadline(_ATTEMPT_S))
    except ConnectError as error:
        cause = error
    return None if cause is None else f"Cannot reach the worker's cluster at {servers}: {cause}"


class ClusterContact:
    """Tries to reach the cluster on a thread of its own until it succeeds once. The owner calls
    `start` and `stop`; any thread may read `trouble`."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = client
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="cluster-contact", daemon=True)
        self.trouble: str | None = None
        """Why the cluster is unreachable; None if it is not, or nobody has looked yet."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the attempts. One that runs ends by itself within seconds."""
        self._stop.set()

    def _main(self) -> None:
        while not self._stop.is_set():
            found = unreachable(self._client)
            if found is None:
                if self.trouble is not None:
                    log.info("The worker's cluster answers now")
                self.trouble = None
                return
            if found != self.trouble:
                log.error("%s. Retrying", found)
            self.trouble = found
            self._stop.wait(_AGAIN_S)
