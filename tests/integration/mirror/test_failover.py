"""Groups that move to the other cluster, and back, read every record exactly once across both."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from connectors.mirror.formats import Checkpoint
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment, page_key
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.properties_files import properties_text
from tests.support.records.groups import commit, committed, consume, latest_checkpoints
from tests.support.records.producing import Record, numbered, produce, produce_transactions
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic, end_offsets
from tests.support.waiting import wait_until

COUNT = 400
PARTITIONS = 2
GROUPS = 4


def client(*arguments: str) -> tuple[int, str, str]:
    """Run `connect-mirror-client`: exit status, stdout, stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "api.cli.mirror_client", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


class Traffic:
    """A plain and a transactional topic of one flow, and all that was committed to them."""

    def __init__(self, flow: MirroredFlow) -> None:
        self.flow = flow
        self.plain = flow.topic("plain", partitions=PARTITIONS)
        self.transactional = flow.topic("transactional")
        self.written: list[bytes] = []

    @property
    def topics(self) -> list[str]:
        return [self.plain, self.transactional]

    @property
    def copies(self) -> list[str]:
        return [self.flow.remote(topic) for topic in self.topics]

    def write(self, round_: int) -> None:
        """`COUNT` more records for each partition, and some that are aborted."""
        servers, start = self.flow.source_servers, round_ * 10_000
        for partition in range(PARTITIONS):
            first = start + 1_000_000 * (partition + 1)
            records = numbered(COUNT, start=first, partition=partition)
            produce(servers, self.plain, records, batch_records=17)
            self._note(records)
        transactions: list[tuple[list[Record], bool]] = []
        for at in range(0, COUNT, 10):
            records = numbered(10, start=start + at)
            self._note(records)
            transactions += [(records, True), (numbered(3, start=9_000_000 + at), False)]
        produce_transactions(servers, self.transactional, transactions)

    def _note(self, records: Sequence[Record]) -> None:
        self.written += [record.value for record in records if record.value is not None]

    def wait_copied(self, rounds: int) -> None:
        self.flow.wait_records(self.plain, [COUNT * rounds] * PARTITIONS)
        self.flow.wait_records(self.transactional, [COUNT * rounds])

    def start_groups(self, groups: Sequence[str]) -> None:
        """Let groups begin at the beginning, with committed offsets in every partition."""
        beginnings = {(self.plain, p): 0 for p in range(PARTITIONS)}
        for group in groups:
            commit(self.flow.source_servers, group, beginnings | {(self.transactional, 0): 0})


def write_properties(path: Path, properties: dict[str, str]) -> str:
    path.write_text(properties_text(properties))
    return str(path)


def test_when_the_source_dies_groups_go_on_at_precisely_the_next_record(
    kafka: KafkaRuntime, target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    chooser = random.Random(11)
    with KafkaCluster(name="doomed", kafka=kafka, logs=logs) as source:
        flow = MirroredFlow(source, target_cluster)
        traffic = Traffic(flow)
        groups = [f"{flow.prefix}.g{n}" for n in range(GROUPS)]
        traffic.start_groups(groups)
        properties = flow.properties(
            {"A.consumer.isolation.level": "read_committed", "groups": f"{flow.prefix}.*"}
        )
        read: dict[str, list[bytes]] = {group: [] for group in groups}
        traffic.write(0)
        with running(properties, tmp_path, logs / "first.log"):
            traffic.wait_copied(1)
            for group in groups[:2]:
                count = chooser.randrange(1, COUNT)
                read[group] += consume(flow.source_servers, group, traffic.topics, count)
            # Killed in the middle of whatever it does.
        traffic.write(1)
        with running(properties, tmp_path, logs / "second.log") as mirror:
            for group in groups:
                count = chooser.randrange(COUNT, 5 * COUNT)
                read[group] += consume(flow.source_servers, group, traffic.topics, count)
            traffic.wait_copied(2)
            wait_until(lambda: all_translated(flow, traffic, groups), 60, "all groups translated")
            stop_cleanly(mirror, logs / "second.log")
        for node in source.nodes:
            node.kill()

        path = write_properties(tmp_path / "mm2.properties", properties)
        move = ("translate", "--config", path, "--from", flow.a, "--to", flow.b)
        status, shown, errors = client(*move, "--groups", f"{flow.prefix}.*", "--commit")
        assert status == 0, errors
        assert "does not answer" in errors
        assert f"Committed for {GROUPS} groups" in shown
    for group in groups:
        read[group] += consume(flow.target_servers, group, traffic.copies)
        assert sorted(read[group]) == sorted(traffic.written), group


def all_translated(flow: MirroredFlow, traffic: Traffic, groups: Sequence[str]) -> bool:
    """Whether each group's last commit on the source has its checkpoint, and an exact one: the
    first may be of a commit that is ahead of the copy."""
    copied = {
        (topic, partition): [
            record.offset
            for record in read_partition(
                flow.source_servers, topic, partition, isolation="read_committed"
            )
        ]
        for topic in traffic.topics
        for partition in end_offsets(flow.source_servers, topic)
    }
    for group in groups:
        known = latest_checkpoints(flow, group)
        for (topic, partition), offset in committed(flow.source_servers, group).items():
            before = sum(each < offset for each in copied[topic, partition])
            if known.get((flow.remote(topic), partition)) != (offset, before):
                return False
    return True


def test_a_group_goes_over_and_comes_back_without_reading_anything_twice(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    traffic = Traffic(flow)
    group = f"{flow.prefix}.g"
    traffic.start_groups([group])
    properties = flow.properties({"A.consumer.isolation.level": "read_committed"})
    path = write_properties(tmp_path / "client.properties", properties)
    there = ("translate", "--config", path, "--from", flow.a, "--to", flow.b, "--group", group)
    back = ("translate", "--config", path, "--from", flow.b, "--to", flow.a, "--group", group)
    with running(properties, tmp_path, logs / "mirror.log") as mirror:
        traffic.write(0)
        traffic.wait_copied(1)
        read = consume(flow.source_servers, group, traffic.topics, 700)
        stop_cleanly(mirror, logs / "mirror.log")

        status, shown, errors = client(*there, "--dry-run", "--json")
        assert status == 0, errors
        plan = json.loads(shown)
        assert plan["from"] == "commits"
        assert plan["committed"] is None
        assert {row["again"] for row in plan["offsets"]} == {0}
        assert {row["has"] for row in plan["offsets"]} == {None}
        assert client(*there, "--commit")[0] == 0
        read += consume(flow.target_servers, group, traffic.copies, 300)

        status, shown, errors = client(*back, "--commit")
        # On the source the group may have passed the markers at the end, which have no copy.
        passed = "ahead of these offsets in 1 partitions, which were left unchanged" in shown
        assert status == (3 if passed else 0), shown + errors
        assert "Committed for 1 groups" in shown
        read += consume(flow.source_servers, group, traffic.topics)
    assert sorted(read) == sorted(traffic.written)


def test_without_the_source_the_map_on_the_target_makes_checkpoints_exact(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    servers, topic = flow.target_servers, f"{flow.prefix}.t"
    copy = create_topic(servers, name=flow.remote(topic), partitions=3)
    for partition in range(3):
        produce(servers, copy, numbered(80, partition=partition))
    pages = [
        (0, MapPage(1, [Segment(0, 0, 40), Segment(50, 40, 40)])),
        (1, MapPage(1, [Segment(0, 0, 10)])),
        (1, MapPage(2, [Segment(10, 10, 0)], seen=35)),
    ]
    create_topic(servers, name=f"mm2-offset-map.{flow.a}.internal")
    produce(
        servers,
        f"mm2-offset-map.{flow.a}.internal",
        [Record(page.encode(), page_key(topic, n, page.first_source)) for n, page in pages],
    )
    group = f"{flow.prefix}.g"
    written = {
        "inside": Checkpoint(group, copy, 0, 60, 41, "of a sync, with its metadata"),
        "lost since": Checkpoint(group, copy, 1, 36, 30),
        "not in the map": Checkpoint(group, copy, 2, 36, 30),
        "after the map": Checkpoint(f"{group}.ahead", copy, 0, 200, 70),
    }
    create_topic(servers, name=f"{flow.a}.checkpoints.internal")
    produce(
        servers,
        f"{flow.a}.checkpoints.internal",
        [Record(each.value(), each.key()) for each in written.values()],
    )
    properties = flow.properties({"offset-syncs.topic.location": "target"})
    path = write_properties(tmp_path / "mm2.properties", properties)

    move = ("translate", "--config", path, "--from", flow.a, "--to", flow.b, "--checkpoints")
    status, _, errors = client(*move, "--groups", f"{group}.*", "--commit")

    assert status == 0, errors
    assert committed(servers, group) == {(copy, 0): 50, (copy, 1): 10, (copy, 2): 30}
    assert committed(servers, f"{group}.ahead") == {(copy, 0): 70}
