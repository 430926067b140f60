"""The oracle: where each group must go on, by the model's logs.

Checked of every place that is given:

* none skips: each record of the source from the group's offset on that the target has, or that is
  still going to be copied, has its last copy at the place or after it. Records that the source has
  compacted away do not count: a range that is copied again does not have them;
* none lies beyond the target's end;
* one that is exact reads nothing again: the first copied record from there on is not before the
  group's offset;
* where written pages explain the offset, the place is exact.

And of every checkpoint and every offset that is committed for a group: it goes back only if the
group did so on the source, or the target lost records since.

These cannot hold by design, and are left out, each for its reason:

* `untold`: until a loss of the target was found and its page is in the topic, nobody can know. The
  page is written as soon as the loss is found. So it is with a source that was created again.
* After the source was created again, offsets and checkpoints may go back once: where the copies of
  the former topic end is known as far as pages tell, and other programs' copies are not in them.
* `hidden`: a loss that is never told. What was known of the logs is kept with stored offsets: if
  another program (Java's MirrorMaker 2) stores them, or a crash comes before the first commit, or
  between a commit and the page that could not be written, there is nothing to compare with. A map
  topic that is deleted takes its loss pages along: from then on translation is Java's, whose syncs
  say nothing of losses.
* `hidden` also: a worker that was frozen while the target lost records, or the source was created
  again, wakes up, and its client still sends syncs that it had handed over before, or pages that
  come before its successor is the partition's owner. Syncs have no session, as Java's have none.
  What the worker itself writes after it woke up is checked: nothing, before it has looked whether
  it still owns the partition. So are its pages that come after its successor owns it: they do not
  count.
* `strayed`: a worker that was frozen, or could not write while it released a partition, may write
  pages before its successor owns the partition, or over pages of its own that counted. Its copies
  are earlier ones, so groups read again at
  most, until the worker that has the partition now looks at what others wrote, and deletes it
  (`OffsetSyncWriter`). Until then the map may be inexact, and checkpoints and offsets may go back,
  as both workers' pages count; and once after it: older pages may count then. A worker that was
  still reading the topic cannot tell such pages from those of its predecessors. The topic is not
  compacted as fast.
* `deleted`: after pages were deleted from the map's topic a translator that runs may know of later
  sessions than the workers; their pages count when it starts again. Until then it has the syncs
  only, and where these are deleted, too, checkpoints may go back. Where workers delete pages
  before the source's log start, it may find older ones. Workers write again the page that says
  where the log of a re-created source begins, and then those of its copies: where these cannot be
  written, checkpoints go back to that place.
* A checkpoints topic that is compacted between a correction and the next round of group sync, with
  a start in between: the correction is not known as one any more. It is not compacted here.
* `older_copies`: of a range that was copied twice, the map knows the later copy. If the target
  loses that one and has the earlier one still, groups do not go back to it.
* `inexact`: what was lost, and what is copied again after a loss, has no exact place before the
  pages of the second copy are written; it must not be skipped all the same. So it is with what a
  worker had copied and not stored, where the next one finds a loss. Where the target ever lost
  something, so it is with all of which pages were written over by other workers: of those only the
  beginnings may be known.
* Offsets before the source's log start: their pages are deleted with the records.
* What group sync wrote before a start of the checkpoint task is corrected as far as the checkpoints
  topic tells of it; that is not checked.
* After a start the checkpoint task does not know before which loss its checkpoints were emitted:
  where the target ever lost something, it may emit one that goes back, once. Group sync follows.
* What a group has on the target when it goes back on the source: group sync does not follow it, as
  Java's does not, and does not know any more by which checkpoint that was written.
* A group that committed on the target by itself: its offsets are its own. After a loss, and once
  again after each start of the checkpoint task, it may be set to a corrected checkpoint.
"""

from __future__ import annotations

from connectors.mirror.offsets.translation import Place
from tests.simulation.groups.logs import Partition

__all__ = ["Broken", "check_place", "skipped"]


class Broken(Exception):
    """An invariant that does not hold."""


def skipped(partition: Partition, offset: int, place: int, position: int) -> str | None:
    """What a group that is at `offset` on the source leaves out if it goes on at `place`. All from
    `position` on is still going to be copied."""
    source, target = partition.source, partition.target
    if place > target.end:
        return f"the target ends at {target.end}"
    last, life = target.last, source.life
    for at in range(max(0, offset), min(position, source.end)):
        copied = last.get((life, at))
        if copied is None or copied >= place or not source.alive[at]:
            continue
        if (life, at) not in partition.older_copies:
            return f"source offset {at} is at {copied}"
    return None


def check_place(partition: Partition, offset: int, place: Place | None, position: int) -> None:
    """Raises `Broken`."""
    if partition.untold or partition.hidden or offset < partition.source.start:
        return
    source, target = partition.source, partition.target
    name = f"partition {partition.number}: offset {offset} is translated to {place}"
    knows = source.start <= offset < source.end and offset in partition.known
    knows = knows and not (partition.deleted or partition.strayed)
    knows = knows and (source.life, offset) in target.last and offset not in partition.inexact
    if place is None:
        if knows:
            raise Broken(f"{name}, and written pages explain it")
        return
    left_out = skipped(partition, offset, place.offset, position)
    if left_out is not None:
        raise Broken(f"{name}, and {left_out}")
    if not place.exact:
        if knows:
            raise Broken(f"{name}, and written pages explain it")
        return
    if offset in partition.inexact:
        return
    for at in range(place.offset, target.end):
        origin = target.log[at]
        if origin is not None:
            if origin < (source.life, offset):
                raise Broken(f"{name}, where {origin} is read again")
            return
