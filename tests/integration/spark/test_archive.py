"""A flow's topics go into Parquet and come back: the same records, in the same partitions and
order, with the same timestamps, each once, whatever killed either in the middle.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from api.cli import mirror_audit
from api.cli.connect_mirror.main import main as connect_mirror
from connect.config.types import SecretStr
from connect.errors import ConfigError
from connectors.archive.errors import DamagedArchive, NotThisCluster, TopicChanged
from connectors.archive.files import ArchiveFiles
from connectors.archive.groups import GroupArchive
from connectors.archive.place import WantedPlace
from connectors.mirror.backfill.errors import LaterRecordsThere
from connectors.mirror.history.queries import flow_jobs
from connectors.mirror.offsets.translator import GroupOffset
from deploy.brokers import GuardedProcess, KafkaCluster
from deploy.spark_cluster import SparkCluster
from tests.support.flows.backfills import Killed, dying, properties_file
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs
from tests.support.records.groups import commit
from tests.support.records.losing import create_again, delete_topic
from tests.support.records.offset_records import mapping, offset_map
from tests.support.records.producing import (
    Record,
    meanwhile,
    numbered,
    produce,
    produce_transactions,
)
from tests.support.records.topics import create_topic, end_offset
from tests.support.spark.archives import archive, planned, problems, read_archive, restore
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, bare_python, of_flow
from tests.support.waiting import wait_until

COMMITTED = {"A.consumer.isolation.level": "read_committed"}
LONG_AGO_MS = 1_700_000_000_000


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def varied(count: int, partition: int) -> list[Record]:
    """Records of every form: with and without key, value and headers."""
    return [
        Record(
            None if n % 7 == 0 else b"v%d" % n + b"." * (n % 90),
            None if n % 3 == 0 else b"k%d" % n,
            partition,
            LONG_AGO_MS + n * 1000 - (n % 5) * 7000,
            [("h", b"%d" % n), ("none", None), ("h", b"\xff\x00")] if n % 4 == 0 else (),
        )
        for n in range(count)
    ]


def assert_audit_equal(flow: MirroredFlow, properties: dict[str, str], directory: Path) -> None:
    """connect-mirror-audit finds no difference."""
    file = properties_file(properties, directory)
    report = directory / "audit.json"
    arguments = [str(file), "--engine", "local", "--processes", "1", "--json", str(report)]
    assert mirror_audit.main(arguments) == 0, report.read_text()
    assert json.loads(report.read_text())["equal"] > 0


def assert_exact_map(flow: MirroredFlow, topic: str, partition: int) -> None:
    translate = offset_map(flow.source_servers, flow.map_topic, topic, partition)
    for source, target in mapping(flow, topic, partition).items():
        assert translate.downstream(source) == target


def test_what_is_restored_is_what_was_archived(
    flow: MirroredFlow, spark: SparkSession, tmp_path: Path
) -> None:
    """In many pieces; without aborted records; with an exact offset map, so that groups are
    translated; and a second archive and a second restore have nothing to do."""
    plain = flow.topic("plain", partitions=2, configs={"retention.ms": "-1"})
    transactional = flow.topic("transactional")
    for partition in range(2):
        produce(
            flow.source_servers, plain, varied(600, partition), compression="lz4", batch_records=50
        )
    groups = [(numbered(40, start=40 * n), n % 3 != 1) for n in range(9)]
    produce_transactions(flow.source_servers, transactional, groups)
    properties = flow.properties(COMMITTED)

    plan = planned(properties, tmp_path, spark)
    assert plan[plain, 0] == plan[plain, 1] == (0, 600)
    assert not (tmp_path / "archive").exists(), "a plan writes nothing"

    store = archive(properties, tmp_path, spark, piece_bytes=8_000)
    done = restore(properties, tmp_path, spark, piece_bytes=30_000)

    assert done.complete
    assert problems(spark, tmp_path) == []
    assert store.ledger.version > 2, "in several pieces"
    assert (done.records(plain), done.records(transactional)) == (1200, 240)
    assert sum(each.gaps for each in store.ledger.ranges[transactional, 0]) == 120 + 9
    assert_audit_equal(flow, properties, tmp_path)
    for topic, partition in [(plain, 0), (plain, 1), (transactional, 0)]:
        assert_equal_logs(flow, topic)
        assert_exact_map(flow, topic, partition)
    assert flow.stored_offsets()[plain, 1] == 599

    assert planned(properties, tmp_path, spark) == {}
    version = archive(properties, tmp_path, spark).ledger.version
    assert version == store.ledger.version
    again = restore(properties, tmp_path, spark)
    assert {job.copied_records for job in again.jobs.values()} == {0}


@pytest.mark.parametrize(
    "committed",
    [
        pytest.param(False, id="before the commit", marks=pytest.mark.slow),
        pytest.param(True, id="after it"),
    ],
)
def test_a_killed_archive_goes_on_with_each_record_once(
    flow: MirroredFlow,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    committed: bool,
) -> None:
    """Killed when the files of a piece are written and not committed, or committed and not moved:
    at no time `data` has a record that the ledger does not have."""
    topic = flow.topic(partitions=2)
    for partition in range(2):
        produce(
            flow.source_servers,
            topic,
            numbered(400, partition=partition, size=100),
            batch_records=20,
        )
    properties = flow.properties()
    with monkeypatch.context() as patched:
        kill_at(patched, 3, "move" if committed else "publish")
        with pytest.raises(Killed):
            archive(properties, tmp_path, spark)
    left = read_archive(tmp_path, spark)
    known = sum(each.records for ranges in left.ledger.ranges.values() for each in ranges)
    assert 0 < known < 800
    assert archived(spark, tmp_path).count() <= known

    store = archive(properties, tmp_path, spark)

    rows = archived(spark, tmp_path)
    assert (rows.count(), rows.select("topic", "partition", "offset").distinct().count()) == (
        800,
        800,
    )
    assert store.files.names("_staging") == []
    assert restore(properties, tmp_path, spark).records(topic) == 800
    assert_equal_logs(flow, topic)


def kill_at(patched: pytest.MonkeyPatch, count: int, method: str) -> None:
    """The program dies when it uses the archive's directory so for the nth time."""
    whole = getattr(ArchiveFiles, method)
    calls = 0

    def dies(self: ArchiveFiles, name: str, text: str) -> object:
        nonlocal calls
        calls += 1
        if calls == count:
            raise Killed
        return whole(self, name, text)

    patched.setattr(ArchiveFiles, method, dies)


def archived(spark: SparkSession, directory: Path) -> DataFrame:
    """The archive as anybody reads it."""
    return spark.read.parquet(str(directory / "archive" / "data"))


def test_a_killed_restore_goes_on_with_each_record_once(
    flow: MirroredFlow, spark: SparkSession, tmp_path: Path
) -> None:
    """What was restored and not written down is found on the target."""
    topic = flow.topic(partitions=2)
    for partition in range(2):
        produce(
            flow.source_servers,
            topic,
            numbered(400, partition=partition, size=100),
            batch_records=20,
        )
    properties = flow.properties()
    archive(properties, tmp_path, spark)
    with pytest.raises(Killed):
        restore(properties, tmp_path, spark, wrapped=dying(2))
    there = sum(end_offset(flow.target_servers, flow.remote(topic), n) for n in range(2))
    assert 0 < there < 800

    done = restore(properties, tmp_path, spark)

    assert done.complete
    assert 0 < done.found(topic) <= there
    assert_equal_logs(flow, topic)
    for partition in range(2):
        assert_exact_map(flow, topic, partition)


def test_what_would_mix_records_is_refused(
    flow: MirroredFlow, spark: SparkSession, tmp_path: Path
) -> None:
    """A topic that was created again, another cluster's archive, a file that was removed, and a
    target with records of its own."""
    topic, other = flow.topic("t"), flow.topic("other")
    for name in (topic, other):
        produce(flow.source_servers, name, numbered(30, start=len(name)))
    properties = flow.properties()
    archive(properties, tmp_path, spark)
    backwards = MirroredFlow(flow.target, flow.source, prefix=flow.prefix)
    backwards.topic("t")
    with pytest.raises(NotThisCluster, match="archive to another directory"):
        archive(backwards.properties(), tmp_path, spark)

    remote = create_topic(flow.target_servers, name=flow.remote(topic))
    produce(flow.target_servers, remote, [Record(b"of somebody else", b"k")])
    with pytest.raises(LaterRecordsThere, match=f"the record at offset 0 of {remote}-0 is not the"):
        restore(properties, tmp_path, spark, topics=topic)
    assert end_offset(flow.target_servers, remote) == 1

    delete_topic(flow.source_servers, topic)
    create_again(flow.source_servers, topic)
    with pytest.raises(TopicChanged, match=f"Topic {topic} was re-created"):
        archive(properties, tmp_path, spark, topics=topic)

    files = sorted((tmp_path / "archive" / "data").rglob("*.parquet"))
    assert problems(spark, tmp_path) == []
    shutil.copy(files[0], files[1])
    Path(files[1].parent, f".{files[1].name}.crc").unlink()
    assert problems(spark, tmp_path) == [
        "its records are not those of the ledger: checksums differ"
    ]
    for file in files:
        file.unlink()
    assert len(problems(spark, tmp_path)) == 2
    with pytest.raises(DamagedArchive, match=r"[.]parquet is missing, which the ledger names"):
        restore(properties, tmp_path, spark, topics=other)
    with pytest.raises(DamagedArchive, match=r"[.]parquet is missing, which the ledger names"):
        archive(properties, tmp_path, spark, topics=other)


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_session_without_the_format_is_told_what_it_lacks(
    spark: SparkSession, flow: MirroredFlow, tmp_path: Path, name: str
) -> None:
    flow.topic()
    reason = f"The Spark session has no {name.title()}: set spark.jars.packages to"
    with pytest.raises(ConfigError, match=reason):
        archive(flow.properties(), tmp_path, spark, wanted=WantedPlace(name, "t"))
    assert not (tmp_path / "archive").exists()


def test_a_stream_archives_new_records_until_sigterm(
    flow: MirroredFlow, tmp_path: Path, logs: Path
) -> None:
    """The command, in a process of its own."""
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(100))
    file = properties_file(flow.properties({"spark.master": "local[2]"}), tmp_path)
    directory, log = tmp_path / "archive", logs / "archive.log"
    command = [sys.executable, "-m", "api.cli.mirror_archive", file, "--to", directory]
    with GuardedProcess([*map(str, command), "--every", "1"], log) as streaming:
        wait_until(lambda: offsets(directory) == 100, 90, "the first records are archived")
        produce(flow.source_servers, topic, numbered(50, start=100))
        wait_until(lambda: offsets(directory) == 150, 60, "the next records are archived")
        status = streaming.stop(30)
    assert status == 0, log.read_text()
    assert "Archived 50 records of 1 partitions" in log.read_text()
    verified = subprocess.run(
        [*map(str, command[:4]), "--verify", str(directory)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert verified.returncode == 0, verified.stderr
    assert "ranges with 150 records are as the ledger says." in verified.stdout


def offsets(directory: Path) -> int:
    """How many records the ledger has."""
    commits = sorted((directory / "ledger").glob("*.json"))
    return sum(
        each["records"] for commit in commits for each in json.loads(commit.read_text())["ranges"]
    )


def test_groups_go_on_in_the_restored_copy_where_they_were(
    flow: MirroredFlow,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By `connect-mirror translate`, across offsets without records: by their offsets on the
    source, and by those in the archive when the source is gone. There a group that had read more
    than was archived is at the end."""
    topic = flow.topic()
    groups = [(numbered(10, start=10 * n), n % 2 == 0) for n in range(6)]
    produce_transactions(flow.source_servers, topic, groups)
    properties = flow.properties({**COMMITTED, "offset-syncs.topic.location": "target"})
    behind, ahead = f"{flow.prefix}-behind", f"{flow.prefix}-ahead"
    # Four transactions of 11 offsets come before, of which two were aborted.
    commit(flow.source_servers, behind, {(topic, 0): 4 * 11 + 2})
    archive(properties, tmp_path, spark)
    restore(properties, tmp_path, spark)
    file = properties_file(properties, tmp_path)
    command = ["translate", "-c", str(file), "--from", flow.a, "--to", flow.b, "-o", "json"]

    def translated(*arguments: str) -> dict[str, int]:
        capsys.readouterr()
        assert connect_mirror([*command, "--groups", f"{flow.prefix}-.*", *arguments]) == 0
        found = json.loads(capsys.readouterr().out)["offsets"]
        assert {each["new_topic"] for each in found} == {flow.remote(topic)}
        return {each["group"]: each["new_offset"] for each in found}

    assert translated() == {behind: 22}
    assert translated("--checkpoints") == {behind: 22}

    end = end_offset(flow.source_servers, topic)
    produce(flow.source_servers, topic, numbered(20))
    commit(flow.source_servers, ahead, {(topic, 0): end + 7})
    GroupArchive(read_archive(tmp_path, spark).files).save(
        [GroupOffset(behind, topic, 0, 4 * 11 + 3), GroupOffset(ahead, topic, 0, end + 7)]
    )
    gone = {**properties, f"{flow.a}.bootstrap.servers": "127.0.0.1:1"}
    restore(gone, tmp_path, spark)
    assert translated("--checkpoints") == {behind: 23, ahead: 30}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_executors_of_a_cluster_archive_and_restore_with_the_code_that_is_sent_to_them(
    flow: MirroredFlow, tmp_path: Path, logs: Path
) -> None:
    """On two workers whose Python has no packages at all, by the command; secrets stay off command
    lines."""
    topic = flow.topic(partitions=3)
    for partition in range(3):
        produce(flow.source_servers, topic, varied(300, partition), batch_records=30)
    with SparkCluster(2, path=[bare_python(tmp_path / "python")], logs=logs) as cluster:
        on_cluster = of_flow({"spark.master": cluster.url, **SMALL_EXECUTORS, **QUICK_JVM})
        canary = {"A.ssl.key.password": "canary-of-a-secret"}
        history = f"sqlite:///{tmp_path}/history.db"
        properties = flow.properties({**on_cluster, **canary, "mirror.history.url": history})
        file, directory = properties_file(properties, tmp_path), str(tmp_path / "archive")
        commands: list[list[str]] = []
        with meanwhile(lambda: commands.extend(cluster.commands()), pause_s=1.0):
            for arguments, said in (
                (["--to", directory, "--plan"], "Archive, most urgent first"),
                (["--to", directory], "Done: 900 records"),
                (["--restore", directory, "--plan"], f"{flow.remote(topic)} does not exist"),
                (["--restore", directory], "Done: 900 records"),
            ):
                command = [sys.executable, "-m", "api.cli.mirror_archive", str(file), *arguments]
                ended = subprocess.run(
                    command, capture_output=True, text=True, timeout=150, check=False
                )
                assert ended.returncode == 0, ended.stdout + ended.stderr
                assert said in ended.stdout
    rows = flow_jobs(SecretStr(history), flow.a, flow.b, limit=10)
    assert {(row["kind"], row["records"], row["state"]) for row in rows} >= {
        ("archive", 900, "done"),
        ("restore", 900, "done"),
    }
    assert commands
    assert "canary" not in str(commands)
    assert_equal_logs(flow, topic)
