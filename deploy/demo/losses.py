"""Checks that nothing is lost: compares every record of the source with every record of the copy.

After a kill, records that were copied after the last commit are copied again, so they may be in the
copy twice. No record may be missing or added. Without duplicates the copy must equal the source,
record by record and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deploy.demo.comparing import Content, latest_by_key, read
from deploy.demo.events import DemoTopic

__all__ = ["Losses", "compare_all", "compare_partition"]

_READ_S = 120.0


@dataclass(frozen=True, slots=True)
class Losses:
    """The result. `equal`: records that are on both sides. `repeated`: duplicates in the copy.
    `different`: describes the first difference."""

    equal: int = 0
    repeated: int = 0
    different: str | None = None

    def plus(self, other: Losses) -> Losses:
        return Losses(
            self.equal + other.equal,
            self.repeated + other.repeated,
            self.different if self.different is not None else other.different,
        )


def compare_all(
    topics: Sequence[DemoTopic],
    source_servers: str,
    target_servers: str,
    prefix: str,
    progress: Callable[[int, int], None],
) -> Losses:
    """Read and compare both clusters, one partition after the other, after copying has ended.

    `progress` receives the number of finished partitions and their total. Raises `RetriableError`
    if a partition cannot be read.
    """
    total = Losses()
    partitions = sum(topic.partitions for topic in topics)
    done = 0
    for topic in topics:
        compare = compare_state if topic.compacted else compare_partition
        for name, number in topic.partition_keys:
            progress(done, partitions)
            done += 1
            source, target = (name, number), (prefix + name, number)
            written = read(source_servers, {source: 0}, _READ_S)[source]
            copied = read(target_servers, {target: 0}, _READ_S)[target]
            total = total.plus(compare(f"{name}-{number}", written, copied))
    progress(done, partitions)
    return total


def compare_partition(where: str, source: Sequence[Content], target: Sequence[Content]) -> Losses:
    """Compare the records of a partition. Each has its own number, so all are different. Pure."""
    once = list(dict.fromkeys(target))
    equal = next(
        (n for n, (one, other) in enumerate(zip(source, once, strict=False)) if one != other),
        min(len(source), len(once)),
    )
    repeated = len(target) - len(once)
    if equal == len(source) == len(once):
        return Losses(equal, repeated)
    if equal == len(once):
        what = f"{len(source) - equal:,} records are missing at the end"
    elif equal == len(source):
        what = f"{len(once) - equal:,} records of the copy are not in the source"
    else:
        what = f"source record {source[equal]} differs from target record {once[equal]}"
    return Losses(equal, repeated, f"{where}: {what}")


def compare_state(where: str, source: Sequence[Content], target: Sequence[Content]) -> Losses:
    """Compare the last record of each key of a compacted topic. Pure."""
    before, after = latest_by_key(list(source)), latest_by_key(list(target))
    equal = sum(after.get(key) == record for key, record in before.items())
    if before == after:
        return Losses(equal)
    return Losses(equal, 0, f"{where}: the last records of {len(before) - equal:,} keys differ")
