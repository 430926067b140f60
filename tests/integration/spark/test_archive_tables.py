"""An archive whose records are in a Delta or Iceberg table: each once, whatever killed it, and they
come back as from Parquet files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from connect.config.types import SecretStr
from connectors.archive.errors import ArchiveRefused, DamagedArchive
from connectors.archive.ledger import Commit
from connectors.archive.place import WantedPlace
from connectors.archive.table import ArchiveTable
from connectors.archive.unpacking import Unpacking, read_schema
from connectors.mirror.history.queries import flow_jobs
from connectors.spark.arrow import collect
from connectors.spark.versions import table_package
from deploy.brokers import GuardedProcess, KafkaCluster
from tests.support.flows.backfills import Killed, properties_file
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs
from tests.support.records.producing import Record, numbered, produce, produce_transactions
from tests.support.records.topics import unique
from tests.support.spark.archives import archive, problems, read_archive, restore
from tests.support.spark.flow import START_S
from tests.support.spark.session import SPARK, session_on
from tests.support.waiting import wait_until

# Sessions with the jars of the table formats.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COMMITTED = {"A.consumer.isolation.level": "read_committed"}
FORMATS = ("delta", "iceberg")


def properties_of(name: str, lake: Path) -> dict[str, str]:
    """What a user sets for this format."""
    if name == "delta":
        return {
            "spark.jars.packages": table_package("delta"),
            # Tasks for each look at the log of a small table.
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    return {
        "spark.jars.packages": table_package("iceberg"),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(lake),
    }


def table_in(name: str, lake: Path) -> WantedPlace:
    """A table that does not exist yet."""
    free = unique("records").replace("-", "_")
    return WantedPlace(name, f"delta.`{lake}/{free}`" if name == "delta" else f"lake.kafka.{free}")


@pytest.fixture(scope="module", params=FORMATS)
def tables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SparkSession, str, Path]]:
    """A session that has a format, the format, and where its catalog has its tables."""
    lake = tmp_path_factory.mktemp("lake")
    with session_on({**SPARK, **properties_of(request.param, lake)}) as session:
        yield session, request.param, lake


@pytest.fixture
def session(tables: tuple[SparkSession, str, Path]) -> SparkSession:
    return tables[0]


@pytest.fixture
def place(tables: tuple[SparkSession, str, Path]) -> WantedPlace:
    return table_in(*tables[1:])


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def rows_of(session: SparkSession, place: WantedPlace) -> DataFrame:
    """The archive as anybody reads it."""
    return session.table(str(place.table))


def assert_once(rows: DataFrame, count: int) -> None:
    assert rows.count() == count
    assert rows.select("topic", "partition", "offset").distinct().count() == count


def test_what_is_restored_is_what_was_archived(
    session: SparkSession, place: WantedPlace, flow: MirroredFlow, tmp_path: Path
) -> None:
    """In many pieces; without aborted records; and a second archive has nothing to do, and needs
    not say where the records are."""
    plain, transactional = flow.topic("plain", partitions=2), flow.topic("transactional")
    for partition in range(2):
        records = numbered(300, partition=partition, size=100)
        produce(flow.source_servers, plain, records, batch_records=20)
    headed = Record(None, b"k", 0, 1_700_000_000_000, [("h", None), ("h", b"\xff")])
    produce(flow.source_servers, plain, [headed])
    produce_transactions(
        flow.source_servers,
        transactional,
        [(numbered(40, start=40 * n), n % 3 != 1) for n in range(6)],
    )
    properties = flow.properties(COMMITTED)

    store = archive(properties, tmp_path, session, piece_bytes=30_000, wanted=place)

    assert store.ledger.version > 2, "in several pieces"
    assert_once(rows_of(session, place), 601 + 160)
    assert problems(session, tmp_path) == []
    assert restore(properties, tmp_path, session).complete
    assert_equal_logs(flow, plain)
    assert_equal_logs(flow, transactional)
    assert archive(properties, tmp_path, session).ledger.version == store.ledger.version


def dying(
    patched: pytest.MonkeyPatch, count: int, *, after: bool
) -> list[tuple[ArchiveTable, Commit]]:
    """The program dies when it puts a commit into the table for the nth time: before, or after.
    Returns what it puts."""
    whole: Callable[..., None] = ArchiveTable.put
    put: list[tuple[ArchiveTable, Commit]] = []

    def dies(self: ArchiveTable, commit: Commit, *, again: bool) -> None:
        put.append((self, commit))
        if len(put) == count and not after:
            raise Killed
        whole(self, commit, again=again)
        if len(put) == count:
            raise Killed

    patched.setattr(ArchiveTable, "put", dies)
    return put


@pytest.mark.parametrize("after", [False, True], ids=["before the append", "after it"])
def test_a_killed_archive_goes_on_with_each_record_once(
    session: SparkSession,
    place: WantedPlace,
    flow: MirroredFlow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    after: bool,
) -> None:
    """Killed when a commit is published and not in the table, or in the table and still staged. One
    that seemed dead and goes on adds nothing."""
    topic = flow.topic(partitions=2)
    for partition in range(2):
        records = numbered(400, partition=partition, size=100)
        produce(flow.source_servers, topic, records, batch_records=20)
    properties = flow.properties()
    with monkeypatch.context() as patched:
        put = dying(patched, 3, after=after)
        with pytest.raises(Killed):
            archive(properties, tmp_path, session, wanted=place)
    left = read_archive(tmp_path, session).ledger
    known = sum(each.records for ranges in left.ranges.values() for each in ranges)
    there = rows_of(session, place).count()
    assert 0 < there <= known < 800
    assert (there == known) == after
    if not after:
        with pytest.raises(DamagedArchive, match="if an archive was killed, run it again"):
            restore(properties, tmp_path, session)
    staging = tmp_path / "archive" / "_staging"
    shutil.copytree(staging, tmp_path / "staged")

    store = archive(properties, tmp_path, session)

    assert_once(rows_of(session, place), 800)
    assert store.files.names("_staging") == []
    shutil.copytree(tmp_path / "staged", staging, dirs_exist_ok=True)
    ghost, last = put[-1]
    ghost.put(last, again=False)
    assert_once(rows_of(session, place), 800)
    shutil.rmtree(staging)
    assert restore(properties, tmp_path, session).records(topic) == 800
    assert_equal_logs(flow, topic)


def test_a_process_killed_anywhere_goes_on_with_each_record_once(
    tables: tuple[SparkSession, str, Path],
    flow: MirroredFlow,
    tmp_path: Path,
    logs: Path,
) -> None:
    """The command in rounds, with `kill -9`, then until a signal; and its rows in the history."""
    session, name, _ = tables
    topic, place = flow.topic(), table_in(name, tmp_path)
    history = f"sqlite:///{tmp_path}/history.db"
    master = {"spark.master": "local[2]", "mirror.history.url": history}
    spark = properties_of(name, tmp_path)
    file = properties_file(flow.properties({**spark, **master}), tmp_path)
    directory, log = tmp_path / "archive", logs / "archive.log"
    command = [sys.executable, "-m", "api.cli.mirror_archive", str(file)]
    wanted = ["--format", name, "--table", str(place.table), "--piece-bytes", "1000"]
    rounds = [*command, "--to", str(directory), *wanted, "--every", "1"]
    produced = 0
    for _ in range(2):
        before = commits(directory)
        produce(flow.source_servers, topic, numbered(400, start=produced), batch_records=10)
        produced += 400
        with GuardedProcess(rounds, log) as streaming:
            wait_until(partial(has_more, directory, before), START_S, "a commit")
            assert streaming.kill() != 0
    with GuardedProcess(rounds, log) as streaming:
        wait_until(lambda: archived(directory) == produced, START_S, "all is archived")
        produce(flow.source_servers, topic, numbered(50, start=produced))
        wait_until(lambda: archived(directory) == produced + 50, START_S, "the next are archived")
        assert streaming.stop(60) == 0, log.read_text()
    verified = subprocess.run(
        [*command, "--verify", str(directory)],
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert f"ranges with {produced + 50} records are as the ledger says." in verified.stdout
    (folder,) = tmp_path.glob("records_*" if name == "delta" else "kafka/records_*")
    assert_once(session.read.format(name).load(str(folder)), produced + 50)
    kinds = {row["kind"] for row in flow_jobs(SecretStr(history), flow.a, flow.b, limit=10)}
    assert kinds == {"archive", "verification"}


def commits(directory: Path) -> int:
    return len(list((directory / "ledger").glob("*.json")))


def has_more(directory: Path, than: int) -> bool:
    return commits(directory) > than


def archived(directory: Path) -> int:
    """How many records the ledger has."""
    return sum(
        each["records"]
        for commit in (directory / "ledger").glob("*.json")
        for each in json.loads(commit.read_text())["ranges"]
    )


def test_a_later_schema_adds_columns_and_another_type_is_refused(
    session: SparkSession, place: WantedPlace, flow: MirroredFlow, tmp_path: Path
) -> None:
    topic = flow.topic()
    properties = flow.properties()

    def unpacking(kind: str) -> Unpacking:
        path = tmp_path / "schema.json"
        schema = {"type": "object", "properties": {"id": {"type": kind}}}
        path.write_text(json.dumps(schema))
        return Unpacking({"value": read_schema(path)})

    def add(start: int, unpacked: Unpacking | None) -> None:
        values = [Record(b'{"id": %d}' % n, b"k") for n in range(start, start + 10)]
        produce(flow.source_servers, topic, values)
        archive(properties, tmp_path, session, wanted=place, unpacking=unpacked)

    add(0, None)
    add(10, unpacking("integer"))
    add(20, None)
    with pytest.raises(ArchiveRefused, match="Column value_unpacked of table"):
        add(30, unpacking("string"))
    archive(properties, tmp_path, session)

    found = collect(rows_of(session, place).orderBy("offset")).to_pylist()
    ids = [row["value_unpacked"] and row["value_unpacked"]["id"] for row in found]
    assert ids == [*[None] * 10, *range(10, 20), *[None] * 20]
    restore(properties, tmp_path, session)
    assert_equal_logs(flow, topic)


def test_what_would_mix_records_is_refused(
    tables: tuple[SparkSession, str, Path], place: WantedPlace, flow: MirroredFlow, tmp_path: Path
) -> None:
    """A table of somebody else, another table or format than before, one that lacks records, and
    one that is gone."""
    session, topic = tables[0], flow.topic()
    produce(flow.source_servers, topic, numbered(30))
    properties = flow.properties()
    taken = table_in(*tables[1:])
    session.range(1).writeTo(str(taken.table)).using(taken.format).create()
    with pytest.raises(ArchiveRefused, match="exists already, and is not of this archive"):
        archive(properties, tmp_path, session, wanted=taken)
    archive(properties, tmp_path, session, wanted=place)

    for other in (WantedPlace(), place._replace(table="lake.kafka.other")):
        with pytest.raises(ArchiveRefused, match="leave out --format and --table"):
            archive(properties, tmp_path, session, wanted=other)
    session.sql(f"DELETE FROM {place.table} WHERE offset = 7")
    assert problems(session, tmp_path) == ["it has 29 records, and the ledger says 30"]
    with pytest.raises(DamagedArchive, match=f"has 29 records of {topic}-0, and the ledger says 3"):
        restore(properties, tmp_path, session)
    dropped(session, place)
    with pytest.raises(DamagedArchive, match="is missing, which has the records of the archive"):
        archive(properties, tmp_path, session)


def dropped(session: SparkSession, place: WantedPlace) -> None:
    """Remove a table; one of Delta that has only a path, by its files."""
    if place.format == "iceberg":
        session.sql(f"DROP TABLE {place.table}")
        return
    shutil.rmtree(str(place.table).removeprefix("delta.").strip("`"))
    cast(Any, session._jvm).org.apache.spark.sql.delta.DeltaLog.clearCache()
