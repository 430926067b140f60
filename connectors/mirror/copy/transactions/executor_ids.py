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

__all__ = [
    "LANES",
    "MOST_BLOCKS",
    "ClaimedProducer",
    "claimed_blocks",
    "fence_lanes",
    "lane_block",
    "lane_id",
]

_FENCE_S = 60.0
_TRANSACTION_TIMEOUT_MS = 1000

LANES = 128
"""Number of lanes of a block. A task begins with one block, and claims the next one as a whole when
all its lanes are in use. A new run fences all blocks that earlier runs claimed, so a later version
must not have smaller blocks or fewer."""

MOST_BLOCKS = 32
"""Maximum number of blocks of a task, which can then have 4,096 shards in flight."""


class ClaimedProducer(NamedTuple):
    """A transactional ID and the producer to write with, once."""

    transactional_id: str
    producer: ProducerIdentity


def lane_id(task_id: str, lane: int) -> str:
    """Return the lane's ID. `task_id`: the task's own transactional ID. It ends with the task's
    number, so it is never the same as a lane ID."""
    return f"{task_id}.lane-{lane}-spark"


def lane_block(task_id: str, block: int) -> list[str]:
    """Return the IDs of a block of lanes. The first one is 0."""
    return [lane_id(task_id, lane) for lane in range(block * LANES, (block + 1) * LANES)]


def claimed_blocks(
    target: WireSettings,
    task_id: str,
    deadline: Deadline,
    cancellation: Cancellation | None = None,
) -> int | None:
    """Return how many blocks of lanes runs of this task have claimed; None if the brokers cannot
    tell (before 3.0). Raises `Interrupted` after cancellation."""
    blocks = 0
    while blocks < MOST_BLOCKS:
        first = lane_id(task_id, blocks * LANES)
        claimed = was_claimed(target, first, deadline, cancellation)
        if claimed is None:
            return None
        if not claimed:
            break
        blocks += 1
    return blocks


def fence_lanes(
    target: WireSettings, task_id: str, task: int, cancellation: Cancellation | None = None
) -> None:
    """Fence executors before a task of the worker's own engine starts.

    The lanes belong to the connector's task 0. `task_id`: the transactional ID of task number
    `task`. Raises `Interrupted` after cancellation.
    """
    first = f"{task_id.removesuffix(str(task))}0"
    deadline = Deadline(_FENCE_S)
    blocks = claimed_blocks(target, first, deadline, cancellation)
    # Where brokers cannot tell, no task has more than one block.
    names = [
        name
        for block in range(1 if blocks is None else blocks)
        for name in lane_block(first, block)
    ]
    if names:
        claim_producers(
            target,
            names,
            deadline,
            timeout_ms=_TRANSACTION_TIMEOUT_MS,
            cancellation=cancellation,
        )
