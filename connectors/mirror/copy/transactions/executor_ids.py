"""Transactional IDs of Spark executors that write exactly once for a task.

Such an ID is called a lane. The task claims it and passes its producer to an executor. The next
claim fences that producer, wherever it still runs.
"""

from __future__ import annotations

from typing import NamedTuple

from connect.clients.config.settings import WireSettings
from connect.clients.transactions.coordinator import ProducerIdentity
from connect.clients.transactions.fence_producers import claim_producers, was_claimed
from connect.clients.wire.cancellation import Cancellation
from connect.clock import Deadline

__all__ = ["LANES", "ClaimedProducer", "fence_lanes", "lane_id"]

_FENCE_S = 60.0
_TRANSACTION_TIMEOUT_MS = 1000

LANES = 128
"""Number of lanes of a task. A new run fences all of them, so a later version must not have
fewer."""


class ClaimedProducer(NamedTuple):
    """A transactional ID and the producer to write with, once."""

    transactional_id: str
    producer: ProducerIdentity


def lane_id(task_id: str, lane: int) -> str:
    """Return the lane's ID. `task_id`: the task's own transactional ID. It ends with the task's
    number, so it is never the same as a lane ID."""
    return f"{task_id}.lane-{lane}-spark"


def fence_lanes(
    target: WireSettings, task_id: str, task: int, cancellation: Cancellation | None = None
) -> None:
    """Fence executors before a task of the worker's own engine starts.

    The lanes belong to the connector's task 0. `task_id`: the transactional ID of task number
    `task`. Raises `Interrupted` after cancellation.
    """
    first = f"{task_id.removesuffix(str(task))}0"
    deadline = Deadline(_FENCE_S)
    if was_claimed(target, lane_id(first, 0), deadline, cancellation):
        names = [lane_id(first, lane) for lane in range(LANES)]
        claim_producers(
            target,
            names,
            deadline,
            timeout_ms=_TRANSACTION_TIMEOUT_MS,
            cancellation=cancellation,
        )
