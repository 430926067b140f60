"""Backfill, audit and archive as applications of their own, by `spark-submit`; and the master
`local-cluster`, whose executors are processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import functions as F

from api.cli import mirror_archive, mirror_audit, mirror_backfill, spark_archive
from api.cli.program import EXIT_DIFFERENT
from connectors.spark.arrow import collect
from deploy.brokers import KafkaCluster
from deploy.brokers.java import find_or_install_java
from deploy.spark_cluster import SparkCluster
from tests.support.flows.backfills import properties_file
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs
from tests.support.records.producing import numbered, produce
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, bare_python, session_on

# JVMs of a cluster, and one for each application.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COMMITTED = {"A.consumer.isolation.level": "read_committed"}
SMALL = {
    **SMALL_EXECUTORS,
    **QUICK_JVM,
    "spark.cores.max": "2",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
}
ROOT = Path(__file__).parents[3]
RUN_S = 300.0


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.fixture
def cluster(tmp_path: Path, logs: Path) -> Iterator[SparkCluster]:
    path = bare_python(tmp_path / "python")
    with SparkCluster(2, path=[path], logs=logs) as started:
        yield started


def submit(master: str, confs: Mapping[str, str], log: Path, main: str, *arguments: object) -> int:
    """Run `spark-submit` with this main file, and return its exit code."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_or_install_java().resolve().parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    options: list[str] = []
    for key, value in confs.items():
        options += ["--conf", f"{key}={value}"]
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    with log.open("ab") as out:
        return subprocess.run(
            [program, "--master", master, *options, main, *map(str, arguments)],
            env=environment,
            stdout=out,
            stderr=out,
            timeout=RUN_S,
            check=False,
        ).returncode


def test_backfill_audit_and_archive_run_as_applications_of_a_cluster(
    flow: MirroredFlow, cluster: SparkCluster, logs: Path, tmp_path: Path
) -> None:
    """Their master and limits are those of the command line, not of the file; executors have of
    ours only what was sent. Exit codes are the programs' own."""
    topic = flow.topic("t", partitions=2)
    for partition in (0, 1):
        produce(flow.source_servers, topic, numbered(500, partition=partition), batch_records=50)
    elsewhere = {"spark.master": "spark://127.0.0.1:1", "spark.app.name": "elsewhere"}
    file = properties_file(flow.properties({**COMMITTED, **elsewhere}), tmp_path)

    def run(main: str, *arguments: object, **confs: str) -> int:
        return submit(cluster.url, {**SMALL, **confs}, logs / "submit.log", main, *arguments)

    said = logs / "submit.log"
    assert run(mirror_backfill.__file__, file, "--flow", f"{flow.a}->{flow.b}") == 0, (
        said.read_text()
    )
    assert_equal_logs(flow, topic)
    report = tmp_path / "audit.json"
    assert run(mirror_audit.__file__, file, "--json", report) == 0, said.read_text()
    assert json.loads(report.read_text())["equal"] is True
    assert "Complete: 1000 records are equal" in said.read_text()
    archived = tmp_path / "archive"
    archive = (mirror_archive.__file__, file, "--to", archived)
    assert run(*archive) == 0, said.read_text()
    assert len(list((archived / "data").rglob("*.parquet"))) == 2
    assert run(mirror_archive.__file__, file, "--verify", archived) == 0, said.read_text()

    produce(flow.target_servers, flow.remote(topic), numbered(1, start=500))
    assert run(mirror_audit.__file__, file) == EXIT_DIFFERENT, said.read_text()
    assert not cluster.applications()


def test_executors_run_with_a_packed_environment_that_spark_distributes(
    flow: MirroredFlow, cluster: SparkCluster, logs: Path, tmp_path: Path
) -> None:
    """As on YARN and Kubernetes, where the archive is on HDFS or in an object store."""
    topic = flow.topic("t")
    produce(flow.source_servers, topic, numbered(300))
    packed = tmp_path / "packages.tar.gz"
    assert spark_archive.main([str(packed)]) == 0
    file = properties_file(flow.properties(COMMITTED), tmp_path)
    confs = {
        **SMALL,
        "spark.archives": f"{packed}#packages",
        "spark.pyspark.python": "./packages/bin/python",
        "spark.pyspark.driver.python": sys.executable,
    }
    log = logs / "submit.log"
    assert submit(cluster.url, confs, log, mirror_backfill.__file__, file) == 0, log.read_text()
    assert_equal_logs(flow, topic)


def places(confs: Mapping[str, str]) -> Sequence[str]:
    """Where executors of a session import our code and a package from."""

    def look(_: int) -> str:
        import os

        import cramjam

        import connect

        return f"{os.path.abspath(str(connect.__file__))} {os.path.abspath(cramjam.__file__)}"

    with session_on({**SMALL, **confs}) as session:
        ask = F.udf(look, "string", useArrow=False).asNondeterministic()
        found = collect(session.range(0, 2, 1, 2).select(ask("id").alias("found")))
        return [str(each["found"]) for each in found.to_pylist()]


def test_local_cluster_sends_code_like_any_cluster() -> None:
    found = places({"spark.master": "local-cluster[1,1,1024]"})
    assert len(found) == 2
    for each in found:
        code, package = each.split(" ")
        assert ".zip/connect/" in code
        assert "/kafka-connect-mirror/packages/cramjam" in package
