"""What a simulated worker writes exactly once with: a client of the simulated coordinator."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from tests.simulation.kafka.coordinator import Coordinator
from tests.simulation.kafka.transactions import SimulatedClient
from tests.simulation.mirror.timeline import Timeline

__all__ = ["WorkerCoordinator"]

_CLAIM_S = 300.0


class WorkerCoordinator(SimulatedClient):
    """The client of one worker, which waits for its claim."""

    def __init__(
        self,
        timeline: Timeline,
        coordinator: Coordinator,
        transactional_id: str,
        timeout_s: float,
        on_identity: Callable[[tuple[int, int]], None],
    ) -> None:
        super().__init__(coordinator, transactional_id, timeout_s, on_identity)
        self._timeline = timeline

    def claim(self) -> Future[None]:
        """The world goes on until the id is claimed."""
        claimed = super().claim()
        self._timeline.wait(claimed.done, _CLAIM_S)
        return claimed

    def confirm(self) -> Future[None]:
        raise AssertionError("no executors write for this task")
