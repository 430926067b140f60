"""Jobs on a real standalone cluster, whose processes have of ours only what is sent to them."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from api.cli import spark_archive
from connectors.mirror.audit.alignment import Rules
from connectors.mirror.audit.auditor import AuditSetup
from connectors.mirror.audit.plan import AuditRange
from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.translation import by_sync
from connectors.mirror.spark.audit import spark_engine
from connectors.mirror.spark.tables import BREAKS, GROUP_OFFSETS, SYNCS
from connectors.mirror.spark.translate.translate import translate
from connectors.spark.arrow import collect
from connectors.spark.errors import job_errors
from deploy.brokers import KafkaCluster
from deploy.spark_cluster import SparkCluster
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.topics import create_topic
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, bare_python, frame, session_on
from tests.support.waiting import wait_until

WAIT_S = 90.0
NOW_MS = 1_700_000_000_000
SMALL = {
    **SMALL_EXECUTORS,
    **QUICK_JVM,
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
}


# Twelve JVMs start for it.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("python"))


@pytest.fixture
def cluster(python: Path, logs: Path) -> Iterator[SparkCluster]:
    with SparkCluster(2, path=[python], logs=logs) as started:
        yield started


def places(session: SparkSession) -> list[list[str]]:
    """Of two tasks: their Python, and where it has our code, a package and our compiled part
    from."""

    # By value, as executors cannot import this module.
    def look(_: int) -> list[str]:
        import cramjam

        import connect
        from connect.protocol import _native as compiled
        from connectors.mirror.spark import audit_executor as audit_work

        files = [str(module.__file__) for module in (connect, audit_work, cramjam, compiled)]
        return [sys.executable, *map(os.path.abspath, files)]

    ask = F.udf(look, "array<string>").asNondeterministic()
    table = collect(session.range(0, 2, numPartitions=2).select(ask("id").alias("found")))
    return [row["found"] for row in table.to_pylist()]


def busy(session: SparkSession) -> int:
    """How many tasks run."""
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def test_an_audit_ends_right_though_a_worker_is_killed_in_its_middle(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, cluster: SparkCluster, python: Path
) -> None:
    """Executors' own Python knows nothing of us. Both tasks wait for records that are not there
    yet, so that one of them is lost with its worker."""
    alone = subprocess.run(
        [python / "python", "-c", "import cramjam"], capture_output=True, check=False
    )
    assert alone.returncode != 0
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topics = [create_topic(source), create_topic(source)]
    records = [Record(each.value, each.key, timestamp_ms=NOW_MS) for each in numbered(100)]
    for topic in topics:
        create_topic(target, name=topic)
        for servers in (source, target):
            produce(servers, topic, records[:90])
    ranges = [
        AuditRange((topic, 0), (topic, 0), 0, 100, 0, 100, Rules(100), 0, 100) for topic in topics
    ]
    setup = AuditSetup({"bootstrap.servers": source}, {"bootstrap.servers": target})

    with session_on({"spark.master": cluster.url, **SMALL}) as session:
        wait_until(lambda: len(cluster.executors()) == 2, WAIT_S, "two executors")
        for interpreter, *files in places(session):
            assert Path(interpreter).parent == python
            assert ["/spark-work-" in file for file in files] == [True] * 4, files
        with ThreadPoolExecutor(1) as thread:
            audit = thread.submit(lambda: list(spark_engine(session)(setup, ranges)))
            wait_until(lambda: busy(session) == 2, WAIT_S, "two tasks")
            cluster.kill_worker(1)
            assert not audit.done()
            for topic in topics:
                for servers in (source, target):
                    produce(servers, topic, records[90:])
            outcomes = audit.result(WAIT_S)
        assert len(cluster.executors()) == 1
    assert {each.range.source[0] for each in outcomes} == set(topics)
    for each in outcomes:
        assert each.result is not None, each.error
        assert (each.result.equal, each.result.different) == (100, 0)


@pytest.mark.slow
def test_a_translation_ends_right_though_a_worker_is_killed_in_its_middle(
    cluster: SparkCluster,
) -> None:
    """What was shuffled to the lost worker is computed again."""
    partitions, every, groups = 50, 10, 8_000
    syncs = [
        ("t", number, at * every, at * 7, at)
        for number in range(partitions)
        for at in range(groups // every)
    ]
    offsets = [
        (f"g{group}", "t", number, group, "")
        for number in range(partitions)
        for group in range(groups)
    ]
    with session_on({"spark.master": cluster.url, **SMALL}) as session:
        wait_until(lambda: len(cluster.executors()) == 2, WAIT_S, "two executors")
        found = translate(
            session,
            frame(session, SYNCS, syncs),
            frame(session, BREAKS, []),
            frame(session, GROUP_OFFSETS, offsets),
        )

        def run() -> Any:
            # What made it fail is said while the session is there to say it.
            with job_errors("The translation"):
                return collect(found)

        with ThreadPoolExecutor(1) as thread:
            translation = thread.submit(run)
            wait_until(lambda: busy(session), WAIT_S, "a task")
            cluster.kill_worker(2)
            assert not translation.done()
            table = translation.result(3 * WAIT_S)
        assert len(cluster.executors()) == 1
    assert table.num_rows == len(offsets)
    for row in table.select(["group", "partition", "downstream"]).to_pylist()[::97]:
        offset = int(row["group"][1:])
        sync = OffsetSync("t", row["partition"], offset // every * every, offset // every * 7)
        place = by_sync(sync, offset)
        assert place is not None
        assert row["downstream"] == place.offset, row


@pytest.mark.slow
def test_an_archive_made_by_hand_and_a_python_that_is_there_both_serve(
    cluster: SparkCluster, python: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "by-hand.tar.gz"
    assert spark_archive.main([str(archive), "--add", "rich"]) == 0
    by_hand = {
        "spark.archives": f"{archive}#mine",
        "spark.pyspark.python": "./mine/bin/python",
    }
    with session_on({"spark.master": cluster.url, **SMALL, **by_hand}) as session:
        for interpreter, code, _, package, _ in places(session):
            assert Path(interpreter).parent == python
            assert "/kafka-connect-mirror-" in code
            assert "/mine/packages/" in package
    there = {"spark.pyspark.python": sys.executable}
    with session_on({"spark.master": cluster.url, **SMALL, **there}) as session:
        for interpreter, code, _, package, _ in places(session):
            assert interpreter == sys.executable
            assert "/kafka-connect-mirror-" in code, "the driver's, though it is installed there"
            assert "/site-packages/" in package
    wait_until(lambda: not cluster.executors(), WAIT_S, "no executor is left")


@pytest.mark.slow
def test_no_secret_is_on_a_command_line_or_in_the_ui(cluster: SparkCluster) -> None:
    secret = "5ecret-of-nobody"
    properties = {
        "spark.hadoop.fs.s3a.secret.key": secret,
        "spark.executorEnv.SOME_PASSWORD": secret,
        "spark.authenticate.secret": secret,
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    with session_on({"spark.master": cluster.url, **SMALL, **properties}) as session:
        places(session)
        assert len(cluster.executors()) == 2
        everybody = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
        assert any("CoarseGrainedExecutorBackend" in line for line in everybody)
        assert any("spark-driver-" in line for line in everybody)
        assert not [line for line in everybody if secret in line]
        context = session.sparkContext
        path = f"/api/v1/applications/{context.applicationId}/environment"
        with urllib.request.urlopen(f"{context.uiWebUrl}{path}", timeout=WAIT_S) as answer:
            shown = answer.read().decode()
        assert "spark.hadoop.fs.s3a.secret.key" in shown
        assert secret not in shown
