"""Proves checkpoints, and what a group read that failed over, against both logs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from tests.support.chaos.evidence import Case, Finding
from tests.support.chaos.logs import Checkpoint

__all__ = ["check_checkpoints", "check_group", "check_meanwhile"]

_SHOWN = 3
_COMMITS = 10
"""A group that committed fewer offsets during the faults needs no checkpoint then."""


def check_checkpoints(
    case: Case,
    found: Sequence[Checkpoint],
    commits: Sequence[int] = (),
    *,
    target_lost: bool = False,
) -> list[Finding]:
    """No checkpoint leaves a record out or goes back, and the last one leads to the very next
    record after the group's last commit.

    A commit that moves past nothing but transaction markers and aborted records has the target
    offset of the commit before it, and gets no checkpoint of its own (as in Java's
    `checkpointIsMoreRecent`).

    `found`: of one group and partition, oldest first. `commits`: the offsets that the group
    committed on the source, ascending, each once. `target_lost`: the mirror reported that the
    target lost records, after which checkpoints must go back.
    """
    findings = list(_check_skips(case, found))
    if not target_lost:
        findings.extend(_check_rewinds(case, found))
    if commits:
        findings.extend(_check_last(case, found, commits[-1]))
    return findings


def check_meanwhile(
    group: str,
    found: Iterable[Checkpoint],
    commits: Mapping[tuple[str, int], Sequence[int]],
) -> list[Finding]:
    """Checkpoints come while the group commits, and not only at the end.

    `found`: of all partitions. `commits`: by target partition, ascending. One checkpoint for one of
    them is enough: a partition gets none for as long as it is not copied, or its cluster is away.
    """
    meanwhile = {(key, offset) for key, each in commits.items() for offset in each[:-1]}
    seen = {((each.topic, each.partition), each.upstream) for each in found}
    if max(map(len, commits.values()), default=0) <= _COMMITS or seen & meanwhile:
        return []
    text = f"none for any of {len(meanwhile)} commits before the last ones"
    return [Finding("checkpoint", group, text)]


def _check_skips(case: Case, found: Sequence[Checkpoint]) -> Iterator[Finding]:
    last_copy = {record.value: record.offset for record in case.target}
    for each in found:
        left_out = [
            record.offset
            for record in case.source
            if record.offset >= each.upstream and last_copy.get(record.value, -1) < each.downstream
        ]
        if left_out:
            text = f"{each} leaves out {len(left_out)} records, first {left_out[:_SHOWN]}"
            yield Finding("checkpoint", case.name, text)


def _check_rewinds(case: Case, found: Sequence[Checkpoint]) -> Iterator[Finding]:
    for before, after in pairwise(found):
        if after.downstream < before.downstream or after.upstream < before.upstream:
            text = f"{after} comes after {before}: it goes back, and no loss was reported"
            yield Finding("checkpoint", case.name, text)


def _check_last(case: Case, found: Sequence[Checkpoint], committed: int) -> Iterator[Finding]:
    if not found or found[-1].upstream > committed:
        yield Finding("checkpoint", case.name, f"none for offset {committed}: {found[-1:]}")
        return
    due = next((r.value for r in case.source if r.offset >= committed), None)
    there = next((r.value for r in case.target if r.offset >= found[-1].downstream), None)
    if due != there:
        text = f"{found[-1]} leads to {(there or b'').split(b'|')[0]!r}, not the next record"
        yield Finding("checkpoint", case.name, f"{text}, {(due or b'').split(b'|')[0]!r}")


def check_group(case: Case, read: Collection[bytes]) -> list[Finding]:
    """A group that read the source, failed over and read the copy has read every record.

    `read`: the identities of what it read, on either side.
    """
    places = case.places()
    skipped = sorted(places[value] for value in case.required(places) if value not in read)
    if not skipped:
        return []
    text = f"a group that failed over did not read {len(skipped)} records, first {skipped[:_SHOWN]}"
    return [Finding("skipped", case.name, text)]
