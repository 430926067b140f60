"""Where a partition was begun is known before its first offset is stored, and forgotten after.

A worker is killed that had begun with partitions of which it had stored nothing, and the source
deletes records before the next one begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation
from sqlalchemy.exc import OperationalError

from connect.storage.offset_codec import encode_key, encode_value
from connectors.mirror.offsets.source_offsets import source_partition
from connectors.mirror.offsets.start_positions import FirstPosition
from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.losing import delete_records, first_positions, history_losses
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import unique
from tests.support.security.denying import denied
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, worker_group
from tests.support.workers.java_connect import worker_properties

TIMEOUT_S = 60.0

pytestmark = pytest.mark.timeout(400)


def history_url(directory: Path) -> str:
    return f"sqlite:///{directory / 'history.db'}"


class Begun:
    """A flow that a single worker copies, and what is known of its beginnings and losses."""

    def __init__(
        self, flow: MirroredFlow, directory: Path, group: Group, options: Mapping[str, str]
    ) -> None:
        self.flow, self.group = flow, group
        self.name = f"{flow.prefix}-source"
        self.url = history_url(directory)
        config = {
            "connector.class": "MirrorSourceConnector",
            "tasks.max": "1",
            "source.cluster.alias": flow.a,
            "target.cluster.alias": flow.b,
            "source.cluster.bootstrap.servers": flow.source_servers,
            "target.cluster.bootstrap.servers": flow.target_servers,
            "source.consumer.isolation.level": "read_committed",
            "topics": f"{flow.prefix}.*",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "sync.topic.configs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "mirror.history.url": self.url,
            **options,
        }
        group.create(self.name, config)

    def kept(self) -> dict[str, FirstPosition]:
        """First positions in the offset map's topic, by topic."""
        return first_positions(self.flow)

    def begun(self, *topics: str) -> None:
        wait_until(lambda: set(topics) <= self.kept().keys(), TIMEOUT_S, f"{topics} are begun")

    def losses(self) -> set[tuple[object, ...]]:
        try:
            return history_losses(self.url)
        except OperationalError:
            return set()  # the database has no tables before it has rows

    def lost_records(self, topic: str) -> float:
        """The metric of the partition, as Prometheus reads it."""
        text = self.group.call("GET", "/metrics").body.decode()
        labels = rf'{{[^}}]*topic="[^"]*{re.escape(topic)}"[^}}]*}}'
        found = re.search(rf"^\S*lost_record_count{labels} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else -1

    def lost(self, *expected: tuple[object, ...]) -> None:
        """Until the history has these and no others."""
        wait_until(lambda: self.losses() >= set(expected), TIMEOUT_S, f"{expected} are told")
        assert self.losses() == set(expected)

    def copied(self, topic: str, *expected: int) -> None:
        """Until the copy has records of these numbers, in this order; no others may come."""
        remote = self.flow.wait_created(topic)

        def there() -> list[int] | None:
            found = numbers(read_partition(self.flow.target_servers, remote))
            return found if len(found) >= len(expected) else None

        assert wait_until(there, TIMEOUT_S, f"copies of {topic}") == list(expected)

    def write(self, topic: str, count: int, start: int = 0) -> None:
        produce(self.flow.source_servers, topic, numbered(count, start=start))

    def trim(self, topic: str, before: int) -> None:
        delete_records(self.flow.source_servers, topic, before)

    def restart(self) -> None:
        (worker,) = self.group.workers
        worker.start().await_ready()

    def kill(self) -> None:
        self.group.workers[0].kill()

    def stop(self) -> None:
        self.group.accepted("PUT", f"/connectors/{self.name}/stop")

        def stopped() -> bool:
            status = self.group.call("GET", f"/connectors/{self.name}/status").json()
            return bool(status["connector"]["state"] == "STOPPED" and not status["tasks"])

        wait_until(stopped, TIMEOUT_S, "the connector is stopped")

    def resume(self) -> None:
        self.group.accepted("PUT", f"/connectors/{self.name}/resume")

    def partition(self, topic: str) -> dict[str, object]:
        return {"cluster": self.flow.a, "partition": 0, "topic": topic}

    def told(self, text: str) -> None:
        """The status says so."""
        wait_until(lambda: text in self.trace(), TIMEOUT_S, text)

    def trace(self) -> str:
        """Of the task's status."""
        status = self.group.call("GET", f"/connectors/{self.name}/status").json()
        return "".join(task.get("trace", "") for task in status["tasks"])


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@contextmanager
def begun_flow(
    flow: MirroredFlow,
    directory: Path,
    logs: Path,
    *,
    once: bool = False,
    options: Mapping[str, str] | None = None,
) -> Iterator[Begun]:
    """`options`: of the connector."""
    properties = {
        **worker_properties(flow.target_servers, unique("begun")),
        "exactly.once.source.support": "enabled" if once else "disabled",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        # At least once nothing is stored before the task ends.
        "offset.flush.interval.ms": "600000",
        "mirror.history.allowed.urls": history_url(directory),
    }
    with worker_group(1, properties, directory, logs) as group:
        yield Begun(flow, directory, group, options or {})


@pytest.mark.parametrize(
    "once",
    [
        pytest.param(False, id="at-least-once"),
        pytest.param(True, id="exactly-once", marks=pytest.mark.slow),
    ],
)
def test_what_is_lost_before_the_first_offset_is_stored_is_reported(
    once: bool, flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """And reset offsets are followed by no report, whether there were any or not."""
    quiet, idle = flow.topic("quiet"), flow.topic("idle")
    with begun_flow(flow, tmp_path, logs, once=once) as mirror:
        mirror.begun(quiet, idle)
        mirror.kill()
        mirror.write(quiet, 100)
        mirror.trim(quiet, 40)
        mirror.restart()
        mirror.copied(quiet, *range(40, 100))
        told = (quiet, "retention", "report", 0, 39, 40)
        mirror.lost(told)
        assert mirror.lost_records(quiet) == 40
        mirror.stop()
        # Once an offset is stored, it is what counts.
        wait_until(lambda: mirror.kept().keys() == {idle}, TIMEOUT_S, "the other is forgotten")

        mirror.group.accepted("DELETE", f"/connectors/{mirror.name}/offsets")
        assert mirror.kept() == {}
        mirror.write(idle, 30)
        mirror.trim(idle, 20)
        mirror.trim(quiet, 80)
        mirror.resume()
        mirror.copied(idle, *range(20, 30))
        mirror.copied(quiet, *range(40, 100), *range(80, 100))
        mirror.lost(told)


@pytest.mark.slow
@pytest.mark.parametrize("once", [False, True], ids=["at-least-once", "exactly-once"])
def test_records_after_an_offset_that_a_user_sets_back_are_copied_again(
    once: bool, flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """An offset is that of the last record that counts as copied."""
    moved, reset, kept = flow.topic("moved"), flow.topic("reset"), flow.topic("kept")
    with begun_flow(flow, tmp_path, logs, once=once) as mirror:
        mirror.begun(moved, reset, kept)
        for topic in (moved, reset, kept):
            mirror.write(topic, 10)
            mirror.copied(topic, *range(10))
        mirror.stop()
        offsets = [
            {"partition": mirror.partition(moved), "offset": {"offset": 3}},
            {"partition": mirror.partition(reset), "offset": None},
        ]
        path = f"/connectors/{mirror.name}/offsets"
        mirror.group.accepted("PATCH", path, {"offsets": offsets})
        mirror.resume()
        mirror.copied(moved, *range(10), *range(4, 10))
        mirror.copied(reset, *range(10), *range(10))
        mirror.write(kept, 1, 10)
        mirror.copied(kept, *range(11))


@pytest.mark.slow
def test_what_was_copied_and_not_stored_is_not_forgotten(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """With the policy fail, the partition stands still until a user deletes its offset."""
    raced = flow.topic("raced")
    options = {"mirror.loss.policy": "fail"}
    with begun_flow(flow, tmp_path, logs, options=options) as mirror:
        mirror.begun(raced)
        mirror.write(raced, 50)
        mirror.copied(raced, *range(50))
        for start in (50, 100):
            mirror.kill()
            mirror.write(raced, 50, start)
            mirror.trim(raced, start + 20)
            mirror.restart()
            mirror.told(f"{raced}-0: the source no longer has offsets 0 to {start + 19}")
        mirror.lost(
            (raced, "retention", "fail", 0, 69, None), (raced, "retention", "fail", 0, 119, None)
        )
        mirror.stop()
        mirror.group.accepted(
            "PATCH",
            f"/connectors/{mirror.name}/offsets",
            {"offsets": [{"partition": mirror.partition(raced), "offset": None}]},
        )
        mirror.resume()
        mirror.copied(raced, *range(50), *range(120, 150))


@pytest.mark.slow
def test_with_auto_offset_reset_latest_only_later_records_are_copied(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    topic = flow.topic()
    options = {"source.consumer.auto.offset.reset": "latest"}
    produce(flow.source_servers, topic, numbered(20))
    with begun_flow(flow, tmp_path, logs, options=options) as mirror:
        mirror.begun(topic)
        mirror.write(topic, 10, 20)
        mirror.copied(topic, *range(20, 30))


@pytest.mark.slow
def test_with_auto_offset_reset_latest_it_goes_on_where_it_had_begun(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """Records that came while no worker ran are not skipped; after a reset they are."""
    topic = flow.topic()
    options = {"source.consumer.auto.offset.reset": "latest"}
    with begun_flow(flow, tmp_path, logs, options=options) as mirror:
        mirror.begun(topic)
        mirror.kill()
        mirror.write(topic, 30)
        mirror.restart()
        mirror.copied(topic, *range(30))
        mirror.stop()
        mirror.group.accepted("DELETE", f"/connectors/{mirror.name}/offsets")
        mirror.write(topic, 10, 30)
        mirror.resume()
        mirror.begun(topic)
        assert mirror.kept()[topic].position == 40
        mirror.write(topic, 5, 40)
        mirror.copied(topic, *range(30), *range(40, 45))


def test_who_stored_and_deleted_an_offset_since_knows_better(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """Of such a turn, which may be Java's worker's, nothing but the offsets topic tells."""
    topic = flow.topic()
    with begun_flow(flow, tmp_path, logs) as mirror:
        mirror.begun(topic)
        mirror.kill()
        mirror.write(topic, 100)
        key = encode_key(mirror.name, source_partition(flow.a, (topic, 0)))
        offsets_topic = mirror.group.properties["offset.storage.topic"]
        for value in (encode_value({"offset": 29}), None):
            produce(flow.target_servers, offsets_topic, [Record(value, key)])
        mirror.trim(topic, 40)
        mirror.restart()
        mirror.copied(topic, *range(40, 100))
        assert mirror.kept()[topic].position == 40
        mirror.stop()
        assert mirror.losses() == set()


def test_where_the_map_may_not_be_written_copying_goes_on_without(
    permitting_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow = MirroredFlow(permitting_cluster, target_cluster)
    topic = flow.topic()
    with (
        denied(flow.source_servers, flow.map_topic, AclOperation.WRITE),
        begun_flow(flow, tmp_path, logs) as mirror,
    ):
        mirror.write(topic, 10)
        mirror.copied(topic, *range(10))
        assert mirror.kept() == {}
        # The flow is well, as MirrorMaker 2 has no map; its log says so.
        wait_until(
            lambda: any(
                "Cannot write pages of the offset map" in log.read_text()
                for log in logs.rglob("*.log")
            ),
            TIMEOUT_S,
            "the log says so",
        )
