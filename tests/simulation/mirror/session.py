"""One run of the task as the oracle knows it, and what the oracle says."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect.protocol.messages import TopicPartition
from tests.simulation.kafka.log import Batch

__all__ = ["Finding", "Session", "SessionProducers"]


class Finding(BaseException):
    """An invariant is broken; the text says which. Nothing of the product handles it."""


@dataclass(eq=False)
class Session:
    """One run of the task, as the target's log and the internal topics show it."""

    number: int
    name: str
    exactly_once: bool
    new: set[TopicPartition] = field(default_factory=set)
    """Partitions of which nothing was stored when it began with them, and that are not on the
    target by it yet."""
    began: dict[TopicPartition, int] = field(default_factory=dict)
    """Where it began with each partition, the last time. These and all other positions at the
    source are numbers (`lives.py`)."""
    lives: dict[TopicPartition, int] = field(default_factory=dict)
    """Which topic of the source's name it copies, as far as it has shown."""
    committing: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    """(partition, source offset) of the positions that it stores outside transactions -> which
    topic of the name they belong to."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the target's log ended then."""
    copies_again: set[TopicPartition] = field(default_factory=set)
    """Partitions that it began at a position that was stored outside transactions, of which nothing
    of it is on the target yet: others may have copied the records from there on."""
    resumes: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """Where a loss that it reported moved it back to."""
    next: dict[TopicPartition, int] = field(default_factory=dict)
    """The number after its last record on the target."""
    alive: bool = True
    failed: bool = False
    """Its task has raised an error."""
    frozen: bool = False
    slow_map: bool = False
    """The map's topic was slow or failed meanwhile, so that nobody waits for it any longer."""
    superseded: bool = False
    """A later session has begun."""
    disturbed: bool = False
    """An earlier session was awake meanwhile, which may have stored earlier positions."""
    whole: bool = True
    """Its pages explain all that it stored: not where a write of one failed, where it wrote
    exactly once, so that pages come seconds after the offsets, and was killed, or where it woke up
    when another owned its partitions."""
    notes: dict[TopicPartition, int] = field(default_factory=dict)
    """Where in the map's topic its notes of the owner are, by partition, until its task knows that
    they were read: its pages wait for that, its offsets do not."""
    read_to: int | None = None
    """How far it has read the map's topic; None: it has not."""
    killed: bool = False
    acked: dict[TopicPartition, int] = field(default_factory=dict)
    """The number after the last one that the target acknowledged to it."""
    stored: dict[TopicPartition, int] = field(default_factory=dict)
    """The highest number that it stored as a source offset."""

    def learn(self, read_to: int | None) -> None:
        """Its task has taken a turn, and knows what was read of the map's topic before."""
        self.notes = {key: at for key, at in self.notes.items() if at >= (read_to or 0)}

    def end(self) -> None:
        """Its process does not run any more."""
        self.alive = False


class SessionProducers:
    """Which session each producer of the target belongs to."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[int, int], Session] = {}

    def given(self, producer: tuple[int, int], session: Session) -> None:
        """The target gave this producer (id, epoch) to a session."""
        self._sessions[producer] = session

    def session_of(self, batch: Batch) -> Session | None:
        """Whose batch this is. A session that is not transactional goes on to the next epochs of
        its producer by itself."""
        given = self._sessions.get((batch.producer, batch.producer_epoch))
        if given is not None:
            return given
        first = self._sessions.get((batch.producer, 0))
        return None if first is None or first.exactly_once else first
