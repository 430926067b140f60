"""Proof that nothing is lost: every record of the source beside every record of the copy.

After a kill a range of records may be in the copy twice: what was copied after the last commit is
copied again. Nothing may be missing, nothing added, and without its repetitions the copy must be
the source, record by record, in its order.
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
    """`equal` records are on both sides, `repeated` are in the copy once more; `different` says
    what is wrong first."""

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
    """Read both clusters, one partition after the other, once nothing moves any more.
    `progress` is told how many partitions of how many are done. Raises `RetriableError` where one
    cannot be read."""
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
    """Records of a partition are all different, as each has its number. Pure."""
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
        what = f"{len(once) - equal:,} records are not the source's"
    else:
        what = f"{source[equal]} became {once[equal]}"
    return Losses(equal, repeated, f"{where}: {what}")


def compare_state(where: str, source: Sequence[Content], target: Sequence[Content]) -> Losses:
    """Of a compacted topic the last record of each key counts. Pure."""
    before, after = latest_by_key(list(source)), latest_by_key(list(target))
    equal = sum(after.get(key) == record for key, record in before.items())
    if before == after:
        return Losses(equal)
    return Losses(equal, 0, f"{where}: the last records of {len(before) - equal:,} keys differ")
