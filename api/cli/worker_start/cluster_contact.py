"""Says within seconds why a worker's cluster is unreachable, while the worker starts and after.

Clients of librdkafka retry without a reason, until a timeout of a minute or more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from connect.clients.wire.bootstrap_probe import why_unreachable
from connect.clock import Deadline
from connect.errors import ConnectError

__all__ = ["ClusterContact", "unreachable"]

_ATTEMPT_S = 5.0
_AGAIN_S, _LOOK_S = 3.0, 30.0

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
    """Tries to reach the cluster on a thread of its own, again and again. The owner calls `start`
    and `stop`; any thread may read `trouble`."""

    def __init__(
        self, client: Mapping[str, str], again_s: float = _AGAIN_S, look_s: float = _LOOK_S
    ) -> None:
        """`again_s`, `look_s`: intervals while the cluster is unreachable, and while it answers."""
        self._client = client
        self._again_s, self._look_s = again_s, look_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="cluster-contact", daemon=True)
        self.trouble: str | None = None
        """Why the cluster is unreachable; None if it is reachable, or was not checked yet."""
        self.attempts = 0
        """How often the cluster was checked."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the attempts. One that runs ends by itself within seconds."""
        self._stop.set()

    def _main(self) -> None:
        while not self._stop.is_set():
            found = unreachable(self._client)
            if found is None and self.trouble is not None:
                log.info("The worker's cluster answers now")
            if found is not None and found != self.trouble:
                log.error("%s. Retrying", found)
            self.trouble = found
            self.attempts += 1
            self._stop.wait(self._look_s if found is None else self._again_s)
