"""The real task, in a simulated world with one partition, whose logs a test changes."""

from __future__ import annotations

from connect.protocol.record_codec import iter_records
from connectors.mirror.config.losses import Loss
from tests.simulation.kafka.log import ABORT, Batch
from tests.simulation.kafka.partition import SimulatedPartition
from tests.simulation.mirror.world import MirrorWorld
from tests.simulation.mirror.writers import SourceWriters

__all__ = ["COPY", "KEY", "LossyWorld", "source_offsets"]

KEY, COPY = ("t", 0), ("a.t", 0)
_LONG_S = 1000.0


class LossyWorld(MirrorWorld):
    """A world whose logs lose records, which its oracle knows nothing of."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.losses: list[Loss] = []
        """Those that were reported."""
        self.policy = "report"
        self.writers = SourceWriters(self.source, self.truth, lambda _: None, transactions=0.0)
        oracle = self.oracle
        oracle.check = oracle.read_offsets  # type: ignore[method-assign]
        for name in ("acked", "appended"):
            setattr(oracle, name, lambda *_: None)
        setattr(oracle, "lost", lambda _, loss: self.losses.append(loss))  # noqa: B010
        self.syncs.on_append = lambda *_: None
        self.commit_every(_LONG_S)

    @classmethod
    def made(cls) -> LossyWorld:
        return next(w for w in map(cls, range(100)) if len(w.keys) == 1 and w.keeps_map)

    def config(self) -> dict[str, str]:
        return {**super().config(), "mirror.loss.policy": self.policy}

    @property
    def copy(self) -> SimulatedPartition:
        found = self.target.find(COPY)
        assert found is not None
        return found

    def copied(self) -> set[int]:
        """The source offsets of the target's committed records."""
        return {
            offset
            for batch in self.copy.log.batches
            if batch.marker is None and batch.fate != ABORT
            for offset in source_offsets(batch)
        }

    def copy_more(self, records: int, *, exactly_once: bool) -> None:
        """A worker copies these and stores its position."""
        self.write(KEY, records)
        worker = self.start_worker(exactly_once=exactly_once)
        self.drive(5.0)
        self.stop(worker)
        assert self.oracle.stored_position(KEY) == self.truth[KEY].end


def source_offsets(batch: Batch) -> list[int]:
    return [int(record.value or b"-1") for record in iter_records(batch.data)]
