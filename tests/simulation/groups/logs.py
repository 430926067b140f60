"""The logs of both clusters in the model: each source record, and where its copies are."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Partition", "Source", "Target", "Told"]

Origin = tuple[int, int]
"""(life of the source's topic, source offset) of a copied record."""

Told = tuple[int, int, int]
"""How often the target lost records, how often workers told so, and how often others than the owner
wrote pages, or the owner deleted those."""


@dataclass
class Source:
    """`alive[offset]`: whether there is a record that is copied: no marker, not compacted."""

    life: int = 1
    start: int = 0
    alive: list[bool] = field(default_factory=list)

    @property
    def end(self) -> int:
        return len(self.alive)


@dataclass
class Target:
    """`log`: what each record was copied from; None: another program's record, or a marker."""

    life: int = 1
    log: list[Origin | None] = field(default_factory=list)
    last: dict[Origin, int] = field(default_factory=dict)
    """Where the last copy of each record is."""

    @property
    def end(self) -> int:
        return len(self.log)

    def append(self, origin: Origin | None) -> None:
        if origin is not None:
            self.last[origin] = len(self.log)
        self.log.append(origin)

    def cut(self, end: int) -> list[Origin]:
        """Lose everything from `end` on; returns the records whose last copy is gone."""
        gone = [origin for origin in self.log[end:] if origin is not None]
        del self.log[end:]
        lost = {origin for origin in gone if self.last[origin] >= end}
        self.last = {o: at for at, o in enumerate(self.log) if o is not None}
        return list(lost)


@dataclass
class Partition:
    """Both logs of one partition, and what the oracle has to know of its history."""

    number: int
    source: Source = field(default_factory=Source)
    target: Target = field(default_factory=Target)
    stored: int | None = None
    """The source offset that is next, as it is stored."""
    noted: tuple[int, bytes] | None = None
    """Under exactly-once: what was noted with that offset."""

    high: int = 0
    """How far it was ever copied, in this life of the source."""
    losses: int = 0
    """How often the target lost records, or was created again."""
    tells: int = 0
    """How often losses of the target, and re-creations of the source, were told; a worker that
    takes over may find one again."""
    untold: bool = False
    """The target lost records, or the source is another one, and the map does not say so yet."""
    hidden: bool = False
    """The map will never say so (see the oracle)."""
    deleted: bool = False
    """Pages of the map were deleted by somebody."""
    disowned: int = 0
    """After how many starts of the checkpoint task somebody deleted a note of the owner: that task
    may leave out the pages of later owners."""
    resumed: int | None = None
    """From here on records are copied again after a loss, and no offset says so yet."""
    strayed: bool = False
    """A worker that had lost the partition wrote pages of it, and nobody has looked since."""
    strays: int = 0
    """How often that began, or ended: each time places may go back once."""
    older_copies: set[Origin] = field(default_factory=set)
    """Records of which the target lost the last copy, and has an earlier one."""
    inexact: set[int] = field(default_factory=set)
    """Source offsets that the target lost, or that are copied again since: the next record after
    them is known by a bound only."""

    known: set[int] = field(default_factory=set)
    """Source offsets that written pages explain."""

    @property
    def told(self) -> Told | None:
        """What the map tells of; None: of the last loss it may tell or not."""
        return None if self.untold else (self.losses, self.tells, self.strays)

    def stray(self) -> None:
        """A worker that does not have the partition wrote a page of it."""
        self.strayed = True
        self.strays += 1
        if self.losses:
            # Of pages that it wrote over only the beginnings may be known.
            self.inexact |= set(range(self.high + 1))

    def compared(self) -> None:
        """The worker that has it looked at what others wrote."""
        if self.strayed:
            self.strayed = False
            self.strays += 1
            self.known.clear()  # pages may have been deleted
