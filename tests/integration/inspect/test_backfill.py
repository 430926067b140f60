"""History is copied as one job, and the live flow goes on right behind it: each record once, in
order, whatever ended a backfill in the middle.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from api.cli.mirror_backfill import main
from api.cli.program import EXIT_FAILED
from connect.clock import SYSTEM_CLOCK
from connectors.mirror.backfill.errors import (
    FlowIsRunning,
    LaterRecordsThere,
    WouldLeaveGap,
)
from connectors.mirror.backfill.request import BackfillRequest
from connectors.mirror.backfill.scheduler import PartitionState
from connectors.spark import program_session as own_session
from connectors.spark.program_session import Patience
from deploy.brokers import KafkaCluster
from tests.support.flows.backfills import Killed, backfill, dying, properties_file
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.compacting import SOON_COMPACTED, wait_compacted
from tests.support.records.offset_records import mapping, offset_map
from tests.support.records.producing import Record, numbered, produce, produce_transactions
from tests.support.records.topics import create_topic, end_offset, has_topic

COMMITTED = {"A.consumer.isolation.level": "read_committed"}


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def assert_exact_map(flow: MirroredFlow, topic: str, partition: int = 0) -> None:
    """The map says of each record where it is."""
    translate = offset_map(flow.source_servers, flow.map_topic, topic, partition)
    for source, target in mapping(flow, topic, partition).items():
        assert translate.downstream(source) == target


def test_the_live_flow_goes_on_right_behind_a_backfill(
    flow: MirroredFlow, spark: SparkSession, tmp_path: Path
) -> None:
    """Of plain, transactional and LogAppendTime topics, in many pieces, on Spark's executors; and
    a second backfill has nothing to do."""
    plain = flow.topic("plain", partitions=2)
    stamped = flow.topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    transactional = flow.topic("transactional")
    for partition in range(2):
        records = numbered(900, partition=partition, size=100)
        produce(flow.source_servers, plain, records, batch_records=30)
    produce(flow.source_servers, stamped, numbered(200), batch_records=20)
    groups = [(numbered(40, start=40 * n), n % 3 != 1) for n in range(9)]
    produce_transactions(flow.source_servers, transactional, groups)
    properties = flow.properties(COMMITTED)

    done = backfill(properties, tmp_path, spark=spark, piece_bytes=30_000)

    assert done.complete
    assert (done.records(plain), done.records(stamped)) == (1800, 200)
    assert done.records(transactional) == 240
    ends = {
        (plain, 0): 899,
        (plain, 1): 899,
        (stamped, 0): 199,
        (transactional, 0): end_offset(flow.source_servers, transactional) - 1,
    }
    assert flow.stored_offsets() == ends
    for topic in (plain, transactional):
        assert_equal_logs(flow, topic)
        assert_exact_map(flow, topic)

    log = tmp_path / "mirror.log"
    with running(properties, tmp_path, log) as mirror:
        for partition in range(2):
            produce(flow.source_servers, plain, numbered(50, start=900, partition=partition))
        produce_transactions(flow.source_servers, transactional, groups[:1])
        flow.wait_records(plain, [950, 950])
        flow.wait_records(transactional, [280])
        stop_cleanly(mirror, log)
    for topic in (plain, transactional):
        assert_equal_logs(flow, topic)
        assert_exact_map(flow, topic)
    assert end_offset(flow.target_servers, flow.remote(stamped)) == 200

    again = backfill(properties, tmp_path)
    assert again.complete
    assert {job.copied_records for job in again.jobs.values()} == {0}


@pytest.mark.slow
def test_the_gaps_of_compaction_and_of_aborted_transactions_are_handed_over(
    flow: MirroredFlow, tmp_path: Path
) -> None:
    """In pieces so small that many of them end in a gap; and both logs end with one. Nothing at
    all is left of the last transaction, which was aborted."""
    source = flow.source_servers
    compacted = flow.topic("compacted", configs=SOON_COMPACTED)
    transactional = flow.topic("transactional")
    for n in range(4):
        keys = [k if k % 4 else 1000 * n + k for k in range(200)]
        records = [Record(b"%d" % n, b"k%d" % key) for key in keys]
        produce(source, compacted, records, compression="lz4", batch_records=40)
    groups = [(numbered(40, start=40 * n), n % 2 == 0) for n in range(10)]
    produce_transactions(source, transactional, groups)
    wait_compacted(source, compacted, 300)
    # A copy that was compacted as well could not be compared record by record.
    properties = flow.properties({**COMMITTED, "config.properties.exclude": ".*"})

    done = backfill(properties, tmp_path, piece_bytes=700)

    assert done.complete
    ends = {(topic, 0): end_offset(source, topic) - 1 for topic in (compacted, transactional)}
    assert flow.stored_offsets() == ends
    assert done.records(transactional) == 200
    for topic in (compacted, transactional):
        assert_equal_logs(flow, topic)
        assert_exact_map(flow, topic)

    there = end_offset(flow.target_servers, flow.remote(compacted))
    log = tmp_path / "mirror.log"
    with running(properties, tmp_path, log) as mirror:
        produce(source, compacted, numbered(30))
        produce_transactions(source, transactional, groups[:2])
        flow.wait_records(compacted, [there + 30])
        flow.wait_records(transactional, [240])
        stop_cleanly(mirror, log)
    for topic in (compacted, transactional):
        assert_equal_logs(flow, topic)
        assert_exact_map(flow, topic)


@pytest.mark.slow
def test_a_big_topic_joins_a_running_flow(flow: MirroredFlow, tmp_path: Path) -> None:
    """Backfilled while the flow leaves it out; refused while the flow copies, or would copy, it."""
    small, big = flow.topic("small"), flow.topic("big")
    produce(flow.source_servers, small, numbered(10))
    produce(flow.source_servers, big, numbered(500, size=100), batch_records=50)
    log = tmp_path / "mirror.log"
    without = flow.properties({"topics.exclude": ".*[.]big"})
    with running(without, tmp_path, log) as mirror:
        flow.wait_records(small, [10])
        with pytest.raises(FlowIsRunning, match=f"copies {small}-0.*Stop the flow's workers"):
            backfill(without, tmp_path)
        done = backfill(without, tmp_path, topics=big)
        assert (done.complete, done.records(big)) == (True, 500)
        produce(flow.source_servers, big, numbered(20, start=500))
        stop_cleanly(mirror, log)
    with running(flow.properties(), tmp_path, log) as mirror:
        flow.wait_records(big, [520])
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, big)
    assert_equal_logs(flow, small)
    assert_exact_map(flow, big)


@pytest.mark.parametrize("after", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_what_was_copied_and_not_stored_is_found_on_the_target(
    flow: MirroredFlow, tmp_path: Path, after: int
) -> None:
    topic = flow.topic(partitions=2)
    for partition in range(2):
        produce(
            flow.source_servers,
            topic,
            numbered(400, partition=partition, size=100),
            batch_records=20,
        )
    with pytest.raises(Killed):
        backfill(flow.properties(), tmp_path, wrapped=dying(after))
    there = sum(end_offset(flow.target_servers, flow.remote(topic), n) for n in range(2))
    assert there > 0

    done = backfill(flow.properties(), tmp_path)

    assert done.complete
    assert 0 < done.found(topic) <= there
    assert_equal_logs(flow, topic)
    for partition in range(2):
        assert_exact_map(flow, topic, partition)


def test_without_a_spark_master_it_ends_soon_and_the_next_one_copies(
    flow: MirroredFlow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(10))
    quick = partial(own_session.own_session, patience=Patience(failed=0.5))
    monkeypatch.setattr(own_session, "own_session", quick)
    file = properties_file(flow.properties({"spark.master": "spark://127.0.0.1:1"}), tmp_path)
    assert main([str(file)]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert "Cannot use Spark: Cannot reach the Spark master spark://127.0.0.1:1" in said
    assert "use --engine local" in said
    assert main([str(file), "--engine", "local"]) == 0, "nothing is locked any more"
    assert end_offset(flow.target_servers, flow.remote(topic)) == 10


def test_a_target_with_records_of_its_own_is_refused(flow: MirroredFlow, tmp_path: Path) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(100))
    remote = create_topic(flow.target_servers, name=flow.remote(topic))
    produce(flow.target_servers, remote, [Record(b"of somebody else", b"k")])
    expected = rf"{topic}-0: the record at offset 0 of {remote}-0 is not the"
    with pytest.raises(LaterRecordsThere, match=expected):
        backfill(flow.properties(), tmp_path)
    assert end_offset(flow.target_servers, remote) == 1


def test_the_plan_has_the_most_urgent_first_and_warns_of_what_would_not_stay(
    flow: MirroredFlow, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hour = 3_600_000
    now_ms = SYSTEM_CLOCK.now_ms()
    old = [
        replace(record, timestamp_ms=now_ms - hour + n) for n, record in enumerate(numbered(100))
    ]
    never = flow.topic("a-never")
    later = flow.topic("b-later", configs={"retention.ms": str(24 * hour)})
    soon = flow.topic("c-soon", configs={"retention.ms": str(2 * hour)})
    for topic in (never, later, soon):
        produce(flow.source_servers, topic, old * (3 if topic == never else 1))
    copy = create_topic(
        flow.target_servers, name=flow.remote(never), configs={"retention.ms": "60000"}
    )

    assert main([str(properties_file(flow.properties(), tmp_path)), "--plan"]) == 0

    told = capfd.readouterr().out
    rows = [line.split("\t") for line in told.splitlines() if line.startswith(flow.prefix)]
    assert [row[0] for row in rows] == [f"{soon}-0", f"{later}-0", f"{never}-0"]
    assert rows[0][5].startswith(("0:59:", "1:00:"))
    assert rows[1][5].startswith(("22:59:", "23:00:"))
    assert rows[2][5] == ""
    assert f"about 300 records of {never} are older than retention.ms=60000" in told
    assert f"raise it for {copy}" in told
    assert not has_topic(flow.target_servers, flow.remote(soon)), "nothing was changed"


def test_a_part_is_copied_and_the_flow_goes_on_behind_it(
    flow: MirroredFlow, tmp_path: Path
) -> None:
    """The command, in a process of its own: its plan, a part by time, and the rest; a gap is
    refused."""
    topic = flow.topic()
    records = [
        replace(record, timestamp_ms=1_700_000_000_000 + 1000 * n)
        for n, record in enumerate(numbered(100))
    ]
    produce(flow.source_servers, topic, records, batch_records=10)
    found = tmp_path / "found.json"
    program = Path(sys.executable).with_name("connect-mirror-backfill")
    file = properties_file(flow.properties(), tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, file, "--engine", "local", "--json", found, *arguments],
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )

    planned = run("--plan")
    assert planned.returncode == 0, planned.stderr
    assert f"{topic}-0\t{flow.remote(topic)}-0\t0\t100\t" in planned.stdout
    assert (
        f"{flow.remote(topic)} does not exist on the target: the backfill creates it"
        in planned.stdout
    )
    part = run(
        "--until", "1700000060000", "--since", "2023-11-14T22:13:40+00:00", "--rate", "1MB/s"
    )
    assert part.returncode == 0, part.stderr
    assert "Done: 40 records" in part.stdout
    (written,) = json.loads(found.read_text())["partitions"]
    assert (written["begin"], written["end"], written["position"]) == (20, 60, 60)
    assert written["state"] == PartitionState.DONE.value
    assert flow.stored_offsets() == {(topic, 0): 59}
    with pytest.raises(WouldLeaveGap, match="continues at offset 60"):
        backfill(flow.properties(), tmp_path, BackfillRequest(first=70))
    with pytest.raises(LaterRecordsThere, match="offsets 0 to 19 were not copied"):
        backfill(flow.properties(), tmp_path, BackfillRequest(first=0))
    assert backfill(flow.properties(), tmp_path).records(topic) == 40
    assert end_offset(flow.target_servers, flow.remote(topic)) == 80
