"""kill -9 at full rate: records that are on the target already are not copied again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.killed_mirrors import PROPERTIES, caught_up, check
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.losing import delete_records, delete_topic
from tests.support.records.producing import numbered, produce, produce_transactions
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import create_topic, end_offset, has_topic
from tests.support.spark.kills import SPARK, STOP_S, WAIT_S
from tests.support.waiting import wait_until

# The slow ones read large logs back, some of them start Spark three times.
pytestmark = pytest.mark.timeout(1200)

PARTITIONS = 2
TIMEOUT_S = 120.0
UNSTORED = {"B.offset.flush.interval.ms": "3600000"}
"""No offset is stored before a kill."""


@dataclass
class KilledFlow:
    """A flow of one topic, whose mirrors are killed before they store an offset. `properties`: of
    all its mirrors."""

    flow: MirroredFlow
    log: Path
    directory: Path
    properties: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    partitions: int = PARTITIONS

    def __post_init__(self) -> None:
        self.topic = self.flow.topic("busy", partitions=self.partitions)

    def fill(self, records: int, *, start: int = 0, batch_records: int | None = None) -> None:
        """So many records in each partition."""
        for number in range(self.partitions):
            lot = numbered(records, start=start, size=200, partition=number)
            produce(self.flow.source_servers, self.topic, lot, batch_records=batch_records)

    def wait_copied(self, records: int) -> None:
        """Until so many records of the first partition are on the target."""
        servers, remote = self.flow.target_servers, self.flow.wait_created(self.topic, WAIT_S)
        wait_until(lambda: end_offset(servers, remote) >= records, self.timeout_s, "copying")

    def kill_at(self, records: int) -> None:
        """Run a mirror until the first partition's copy has so many records, and kill it."""
        before = self.stored()
        properties = self.flow.properties({**self.properties, **UNSTORED})
        with running(properties, self.directory, self.log) as mirror:
            self.wait_copied(records)
            mirror.kill()
        assert self.stored() == before

    def stored(self) -> dict[tuple[str, int], int]:
        """The stored offsets."""
        known = has_topic(self.flow.target_servers, self.flow.offsets_topic)
        return self.flow.stored_offsets() if known else {}

    def finish(self) -> None:
        """Run a mirror that copies the rest and stores all."""
        properties = self.flow.properties({**self.properties, "B.offset.flush.interval.ms": "500"})
        with running(properties, self.directory, self.log) as mirror:
            caught_up(self.flow, {self.topic: self.partitions}, self.timeout_s)
            if "A->B.mirror.engine" in self.properties:
                # Spark's log has what it says of lost connections while it ends.
                assert mirror.stop(STOP_S) == 0, self.log.read_text()
            else:
                stop_cleanly(mirror, self.log)

    def doubled(self) -> int:
        """Compare both logs, and follow the map."""
        return check(self.flow, {self.topic: self.partitions}, 0)

    @property
    def found(self) -> bool:
        """Whether records were found on the target."""
        return "were on the target already" in self.log.read_text()


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.mark.parametrize(
    ("records", "kills"),
    [(200_000, 1), pytest.param(1_000_000, 5, marks=pytest.mark.slow)],
)
def test_a_kill_at_full_rate_doubles_nothing(
    flow: MirroredFlow, logs: Path, tmp_path: Path, records: int, kills: int
) -> None:
    killed = KilledFlow(flow, logs / "mirror.log", tmp_path)
    killed.fill(records // PARTITIONS)
    for kill in range(kills):
        killed.kill_at(kill * records // kills // PARTITIONS + 1)
    killed.finish()
    assert killed.doubled() == 0
    assert killed.found


@pytest.mark.slow
def test_a_kill_at_full_rate_on_spark_doubles_nothing(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """What executors copied before the flow's first commit is found, too."""
    kills, records = 2, 600_000
    killed = KilledFlow(flow, logs / "mirror.log", tmp_path, SPARK, WAIT_S)
    killed.fill(records // PARTITIONS)
    for kill in range(kills):
        killed.kill_at(kill * records // kills // PARTITIONS + 1)
    killed.finish()
    assert killed.doubled() == 0
    assert killed.found


@pytest.mark.slow
def test_committed_records_are_found_among_aborted_ones(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """The copy has no gaps where the source has markers and aborted records."""
    killed = KilledFlow(flow, logs / "mirror.log", tmp_path, PROPERTIES, partitions=1)
    size, rounds = 4_000, 50
    produce_transactions(
        flow.source_servers,
        killed.topic,
        ((numbered(size, start=n * size, size=200), n % 3 != 1) for n in range(rounds)),
    )
    committed = sum(n % 3 != 1 for n in range(rounds)) * size
    for at in (1, committed // 2):
        killed.kill_at(at)
    killed.finish()
    assert killed.doubled() == 0
    assert killed.found


@pytest.mark.slow
def test_records_in_other_batches_than_the_sources_are_found(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """The target takes only small batches, so the source's are copied record by record."""
    killed = KilledFlow(
        flow, logs / "mirror.log", tmp_path, {"config.properties.exclude": "max.message.bytes"}
    )
    remote = create_topic(
        flow.target_servers,
        name=flow.remote(killed.topic),
        partitions=PARTITIONS,
        configs={"max.message.bytes": "20000"},
    )
    killed.fill(100_000, batch_records=1_000)
    for at in (1, 50_000):
        killed.kill_at(at)
    killed.finish()
    assert end_offset(flow.target_servers, remote) == 100_000
    assert killed.doubled() == 0
    assert killed.found


@pytest.mark.slow
def test_records_on_a_target_that_was_created_again_are_found(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """The mirror is killed while it copies everything again into the new topic."""
    policy = {"mirror.loss.policy.target.recreated": "copy"}
    killed = KilledFlow(flow, logs / "mirror.log", tmp_path, policy)
    killed.fill(150_000)
    killed.finish()
    remote = flow.remote(killed.topic)
    delete_topic(flow.target_servers, remote)
    wait_until(lambda: not has_topic(flow.target_servers, remote), TIMEOUT_S, "it is gone")
    properties = flow.properties({**policy, **UNSTORED})
    for at in (1, 75_000):
        with running(properties, tmp_path, killed.log) as mirror:
            killed.wait_copied(at)
            mirror.kill()
    assert max(killed.stored().values()) < 149_999, "all was stored before the kill"
    killed.finish()
    assert killed.doubled() == 0
    assert killed.found


@pytest.mark.slow
@pytest.mark.parametrize("cut_off", ["stored", "not stored", "everything"])
def test_a_target_whose_first_records_were_deleted_is_compared(
    flow: MirroredFlow, logs: Path, tmp_path: Path, cut_off: str
) -> None:
    """As by retention, between a crash and the next start: up to records that are stored as copied,
    or beyond. What is left is found. If nothing is left, the records are copied again, and are
    there once."""
    killed = KilledFlow(flow, logs / "mirror.log", tmp_path, partitions=1)
    target, remote, half = flow.target_servers, flow.remote(killed.topic), 150_000
    killed.fill(half)
    killed.finish()
    killed.fill(half, start=half)
    for at in (half + 1, half + half // 2):
        killed.kill_at(at)
        end = end_offset(target, remote)
        kept_from = {"stored": 100_000, "not stored": (half + at) // 2 + 1, "everything": end}
        delete_records(target, remote, kept_from[cut_off])
    killed.finish()
    missing = half if cut_off == "everything" else kept_from[cut_off]
    before = read_partition(flow.source_servers, killed.topic)
    after = read_partition(target, remote)
    assert contents(after) == contents(before)[missing:]
    assert killed.found == (cut_off != "everything")
