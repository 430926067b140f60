"""A partition of a simulated cluster: its log, its leader, and producers that wait for replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.kafka.log import Log

__all__ = ["NO_LEADER", "SimulatedPartition"]

NO_LEADER = -1

OnReplicated = Callable[[int], None]


@dataclass(slots=True, eq=False)
class SimulatedPartition:
    """`leader` NO_LEADER: none. `enough_replicas` False: writes are refused before they are
    appended. `replicating` False: what is appended is not replicated, and so not acknowledged."""

    topic: str
    number: int
    log: Log = field(default_factory=Log)
    leader: int = NO_LEADER
    epoch: int = 0
    enough_replicas: bool = True
    replicating: bool = True
    max_message_bytes: int = 1 << 20
    waiting: list[tuple[int, OnReplicated]] = field(default_factory=list)
    """(offset that must be replicated, called with an error code)."""

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.number

    def replicate(self) -> None:
        """Followers have everything, if they follow."""
        if not self.replicating:
            return
        self.log.high = self.log.end
        waiting, self.waiting = self.waiting, []
        for _, done in waiting:
            done(0)

    def when_replicated(self, end: int, done: OnReplicated) -> None:
        """Call `done` with 0 once `end` is replicated, or with the reason why it is not."""
        if end <= self.log.high:
            done(0)
        else:
            self.waiting.append((end, done))

    def answer_waiting(self, code: int) -> None:
        """Tell those that wait for replicas to wait no longer."""
        waiting, self.waiting = self.waiting, []
        for _, done in waiting:
            done(code)
