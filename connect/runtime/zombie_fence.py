"""Sends the broker requests that fence earlier tasks of a connector (KIP-618).

The group's leader decides when fencing is due.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future

from connect.clients.transactions.fence_producers import fence_producers
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.runtime.offset_stores import task_transactional_id
from connect.runtime.plugins.connector_clients import ConnectorClients
from connect.runtime.states import InstanceId

__all__ = ["ZombieFence"]

_log = logging.getLogger(__name__)

# The time that Java's leader allows its brokers.
_FENCE_S = 90.0
_SERVERS = "bootstrap.servers"


class ZombieFence:
    """Fences producers for one worker. Thread-safe; its owner calls `stop` once."""

    def __init__(
        self, clients: ConnectorClients, group_id: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clients = clients
        self._group_id = group_id
        self._clock = clock
        self._cancellation = Cancellation()
        self._threads = OneShotThreads("zombie-fence")

    def fence(self, connector: str, tasks: int, config: Mapping[str, str]) -> Future[None]:
        """Fence the producers of earlier tasks 0 to `tasks` - 1 of a connector.

        The future completes when they can no longer write, or fails with the brokers' error, after
        90 s at most. `config` is the connector's, resolved.
        """
        ids = [
            task_transactional_id(self._group_id, InstanceId(connector, number))
            for number in range(tasks)
        ]
        properties = self._properties(connector, config)

        def work() -> None:
            deadline = Deadline(_FENCE_S, self._clock)
            fence_producers(properties, ids, deadline, self._cancellation)
            _log.info("Fenced out earlier producers of %d tasks of %s", tasks, connector)

        return self._threads.run(connector, work)

    def stop(self, deadline: Deadline) -> None:
        """Cancel running fencing rounds; their futures fail."""
        self._threads.stop()
        self._cancellation.cancel()
        left = self._threads.join(deadline)
        if left:
            _log.warning(
                "Threads that did not end in time; nothing has to be done, they end with "
                "the process: %s",
                ", ".join(left),
            )
        else:
            self._cancellation.close()

    def _properties(self, connector: str, config: Mapping[str, str]) -> dict[str, str]:
        """Return the connector's admin client properties, as in Java.

        If only its producers use another cluster, the properties point to that cluster, which has
        the transactional ids.
        """
        client_id = f"connector-worker-adminclient-{connector}"
        clients = self._clients.of(connector, "source", config)
        admin, producer = clients.admin(client_id), clients.producer(client_id)
        home = self._clients.config.originals[_SERVERS]
        elsewhere, at_home = producer[_SERVERS] != home, admin[_SERVERS] == home
        return producer if elsewhere and at_home else admin
