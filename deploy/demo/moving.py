"""A consumer group that moves: it reads some payments on the source, and the rest on the target.

Payments are transactional, so their offsets differ between both sides. The group commits at
arbitrary offsets, and `connect-mirror-client` or the mirror translates them to the other cluster.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Message, TopicPartition

from deploy.brokers import ProcessFailed
from deploy.demo.events import topic_named
from deploy.demo.mirror import SOURCE, TARGET, installed_command
from deploy.demo.reading import PartitionKey, committed_reader, read_partitions

__all__ = ["GROUP", "MovedGroup", "has_place", "move_by_command", "move_command", "move_group"]

GROUP = "billing"
COMMAND = "connect-mirror-client"

_TOPIC = topic_named("payments")
_READ_S = 30.0
_MOVE_S = 60.0


@dataclass(frozen=True, slots=True)
class MovedGroup:
    """The result: how many records the group read on each side, and how many it read twice or
    never."""

    before: int
    after: int
    twice: int
    missing: int

    @property
    def exact(self) -> bool:
        return not self.twice and not self.missing

    def describe(self) -> str:
        outcome = (
            "each payment once"
            if self.exact
            else f"{self.twice} payments read twice, {self.missing} never"
        )
        return (
            f"Group {GROUP} read {self.before:,} payments in {SOURCE}, moved, and read the other "
            f"{self.after:,} in {TARGET}: {outcome}"
        )


def move_command(properties: Path) -> list[str]:
    """Return the command that moves the group, as a user would type it."""
    flags = ["--config", str(properties), "--from", SOURCE, "--to", TARGET, "--group", GROUP]
    return [COMMAND, "translate", *flags, "--commit"]


def move_by_command(properties: Path) -> None:
    """Run the command that moves the group. Raises `ProcessFailed`."""
    name, *arguments = move_command(properties)
    done = subprocess.run(
        [str(installed_command(name)), *arguments],
        capture_output=True,
        text=True,
        timeout=_MOVE_S,
        check=False,
    )
    if done.returncode:
        raise ProcessFailed(
            f"{name} exited with status {done.returncode}: {done.stderr or done.stdout}"
        )


def has_place(target_servers: str, prefix: str) -> bool:
    """Whether the group has an offset in every partition of the copy."""
    with committed_reader(target_servers, GROUP, "Payments") as consumer:
        copies = [TopicPartition(prefix + topic, number) for topic, number in _TOPIC.partition_keys]
        return all(each.offset >= 0 for each in consumer.committed(copies, timeout=_READ_S))


def move_group(
    source_servers: str, target_servers: str, prefix: str, move: Callable[[], None]
) -> MovedGroup:
    """Move the group after all payments were copied. `move` returns once the group has its offsets
    on the target. Raises `ConnectError`."""
    dice = random.Random()
    keys = _TOPIC.partition_keys
    everything = _read(source_servers, keys, None)
    limits = {key: dice.randrange(1, len(everything[key])) for key in keys}
    before = _read(source_servers, keys, limits)
    move()
    copies = [(prefix + topic, partition) for topic, partition in keys]
    after = _read(target_servers, copies, None, committed=True)
    wanted = Counter(value for values in everything.values() for value in values)
    got = Counter(value for read in (before, after) for values in read.values() for value in values)
    return MovedGroup(
        sum(map(len, before.values())),
        sum(map(len, after.values())),
        (got - wanted).total(),
        (wanted - got).total(),
    )


def _read(
    servers: str,
    keys: Sequence[PartitionKey],
    limits: dict[PartitionKey, int] | None,
    *,
    committed: bool = False,
) -> dict[PartitionKey, list[bytes]]:
    """Read payments as the group, from the start or from its committed offsets up to the end. With
    `limits`, read that number per partition and commit the offsets."""
    found: dict[PartitionKey, list[bytes]] = {key: [] for key in keys}
    ends = dict.fromkeys(keys, 0)

    def take(key: PartitionKey, message: Message) -> bool:
        value, offset = message.value(), message.offset()
        assert value is not None
        assert offset is not None
        found[key].append(value)
        ends[key] = offset + 1
        return limits is not None and len(found[key]) >= limits[key]

    with committed_reader(servers, GROUP, "Payments") as consumer:
        starts = [TopicPartition(*key, 0) for key in keys]
        if committed:
            starts = consumer.committed([TopicPartition(*key) for key in keys], timeout=_READ_S)
        consumer.assign(starts)
        read_partitions(consumer, keys, take, _READ_S)
        if limits is not None:
            offsets = [TopicPartition(*key, offset) for key, offset in ends.items()]
            consumer.commit(offsets=offsets, asynchronous=False)
    return found
