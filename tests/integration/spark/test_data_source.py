"""The data source: streams, secrets, errors, and executors that know nothing of us."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from connect.config.types import SecretStr
from connect.errors import ConfigError
from connectors.dataframes import MirrorFrames, open_frames
from connectors.mirror.formats import OffsetSync
from connectors.mirror.history.database import open_history
from connectors.mirror.history.rows import CopiedRow, EventRow, FlowTask
from connectors.spark.arrow import collect
from deploy.brokers import KafkaCluster
from deploy.brokers.java import find_or_install_java
from deploy.spark_cluster import SparkCluster
from tests.support.flows.backfills import properties_file
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.groups import commit
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.topics import create_topic, unique
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, bare_python, of_flow, session_on

CHECKOUT = Path(__file__).parents[3]
SECRET = "5ecret-of-nobody"
WAIT_S = 120.0
NOBODY = {
    "clusters": "A, B",
    "A->B.enabled": "true",
    "A.bootstrap.servers": "127.0.0.1:1",
    "B.bootstrap.servers": "127.0.0.1:1",
}
"""A flow between clusters that are not there."""

pytestmark = pytest.mark.timeout(400)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = collect(frame).to_pylist()
    return found


def write_syncs(flow: MirroredFlow, first: int, count: int) -> None:
    """As a mirror does."""
    syncs = [OffsetSync("t", 0, at, 2 * at) for at in range(first, first + count)]
    produce(flow.source_servers, flow.syncs_topic, [Record(s.value(), s.key()) for s in syncs])


def run_stream(frame: DataFrame, directory: Path) -> None:
    """Append what is new to a table, and end."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(directory / "table"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WAIT_S))


def test_a_stream_of_a_topic_lists_each_record_once_over_restarts(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    create_topic(flow.source_servers, name=flow.syncs_topic)
    frames = MirrorFrames(spark, properties_file(flow.properties(), tmp_path))
    written = 0
    for count in (5, 0, 7):
        write_syncs(flow, written, count)
        written += count
        run_stream(frames.stream("offset_syncs"), tmp_path)
        table = spark.read.parquet(str(tmp_path / "table"))
        found = rows(table.orderBy("offset").select("offset", "upstream_offset"))
        assert found == [{"offset": n, "upstream_offset": n} for n in range(written)]


def test_a_batch_that_failed_is_read_again_as_it_was(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Its end is in Spark's checkpoint, so that what came meanwhile belongs to the next."""
    flow = MirroredFlow(source_cluster, target_cluster)
    create_topic(flow.source_servers, name=flow.syncs_topic)
    frames = MirrorFrames(spark, properties_file(flow.properties(), tmp_path))
    seen: list[tuple[int, list[int]]] = []

    def take(frame: DataFrame, batch: int) -> None:
        seen.append((batch, sorted(row["offset"] for row in rows(frame.select("offset")))))
        if len(seen) == 1:
            raise RuntimeError("a table that is full")

    for failed, more in ((True, 3), (False, 3), (False, 0)):
        write_syncs(flow, 0, more)
        query = (
            frames.stream("offset_syncs")
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(take)
            .trigger(availableNow=True)
            .start()
        )
        if failed:
            with pytest.raises(PySparkException, match="a table that is full"):
                query.awaitTermination(int(WAIT_S))
        else:
            assert query.awaitTermination(int(WAIT_S))
    assert seen == [(0, [0, 1, 2]), (0, [0, 1, 2]), (1, [3, 4, 5])]


def test_a_stream_of_the_history_lists_each_event_once(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    url = f"sqlite:///{tmp_path}/history.db"
    file = properties_file(flow.properties({"mirror.history.url": url}), tmp_path)
    frames = MirrorFrames(spark, file)
    written = 0
    for count in (0, 2, 3):
        history = open_history(SecretStr(url), 7)
        assert history is not None
        for _ in range(count):
            event = EventRow("retention", "t", 0, "t", "report", "source", 1, 2, 2, 3, "lost")
            history.add(FlowTask("MirrorSourceConnector", 0, flow.a, flow.b), event)
        history.close()
        written += count
        run_stream(frames.stream("events"), tmp_path)
        if written:
            table = spark.read.parquet(str(tmp_path / "table"))
            assert [row["id"] for row in rows(table.orderBy("id"))] == list(range(1, written + 1))


def test_wrong_options_fail_at_load_and_brokers_that_are_away_are_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = properties_file(NOBODY, tmp_path)
    frames = MirrorFrames(spark, file)
    with pytest.raises(ConfigError, match=r"^Unknown table lags: load one of"):
        frames.table("lags")
    read = spark.read.format("kafka_mirror")
    with pytest.raises(PySparkException, match="Unknown table lags: load one of"):
        read.option("config", str(file)).load("lags")
    with pytest.raises(PySparkException, match=r"Invalid value for option flow: B->A\. Flows"):
        read.option("config", str(file)).option("flow", "B->A").load("lag")
    with pytest.raises(PySparkException, match="Option config=none: there is no such file"):
        read.option("config", "none").load("lag")
    streamed = spark.readStream.format("kafka_mirror").option("config", str(file))
    with pytest.raises(PySparkException, match="Table lag cannot be streamed"):
        run_stream(streamed.load("lag"), tmp_path)
    away = r"The source cluster at 127.0.0.1:1 does not answer: .* Check that its brokers"
    with pytest.raises(PySparkException, match=away):
        frames.table("offset_syncs").count()


def test_no_secret_is_in_a_plan_or_in_the_event_log(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    create_topic(flow.source_servers, name=flow.syncs_topic)
    write_syncs(flow, 0, 3)
    secrets = {f"{side}.ssl.key.password": SECRET for side in "AB"}
    file = properties_file(flow.properties(secrets), tmp_path)
    logged = {
        "spark.master": "local[2]",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": tmp_path.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    with session_on(logged) as session:
        frames = MirrorFrames(session, file)
        frame = frames.table("offset_syncs")
        assert frame.count() == 3
        shown = frame._jdf.queryExecution().toString()
        run_stream(frames.stream("offset_syncs"), tmp_path)
    (log,) = tmp_path.glob("local-*")
    assert "kafka_mirror" in shown
    assert SECRET not in shown
    events = log.read_text()
    assert "kafka_mirror" in events
    assert "SparkListenerTaskEnd" in events
    assert SECRET not in events


FRAMES = """
import json, sys
from connectors.dataframes import open_frames
from connectors.spark.arrow import collect

with open_frames(sys.argv[1]) as frames:
    names = ("offset_syncs", "lag", "events")
    found = {name: collect(frames.table(name)).num_rows for name in names}
    print(json.dumps([frames.session.sparkContext.master, found]))
"""


def test_executors_of_a_cluster_read_with_the_code_that_is_sent_to_them(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    """Their Python has no package at all; the driver's own plans."""
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic(partitions=3)
    produce(flow.source_servers, topic, numbered(5))
    create_topic(flow.source_servers, name=flow.syncs_topic)
    write_syncs(flow, 0, 3)
    with SparkCluster(1, path=[bare_python(tmp_path / "python")], logs=logs) as cluster:
        on_cluster = of_flow({"spark.master": cluster.url, **SMALL_EXECUTORS, **QUICK_JVM})
        file = properties_file(flow.properties(on_cluster), tmp_path)
        said = ran_python(FRAMES, file.name, cwd=tmp_path)
        expected = {"offset_syncs": 3, "lag": 3, "events": 0}
        assert json.loads(said.splitlines()[-1]) == [cluster.url, expected]


CONNECT = """
import json, sys
from pyspark.sql import SparkSession
from connectors.dataframes import MirrorFrames

spark = SparkSession.builder.remote("local[2]").getOrCreate()
try:
    frames = MirrorFrames(spark, sys.argv[1])
    frames.create_views()
    counted = spark.sql("SELECT count(*) FROM offset_syncs").collect()[0][0]
    lags = [row.asDict() for row in frames.table("lag").select("topic", "partition").collect()]
    query = frames.stream("offset_syncs").writeStream.format("parquet").option("path", sys.argv[2])
    query = query.option("checkpointLocation", sys.argv[2] + ".checkpoint")
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    streamed = spark.read.parquet(sys.argv[2]).count()
    print(json.dumps([type(spark).__module__, counted, lags, streamed]))
finally:
    spark.stop()
"""


@pytest.mark.slow
def test_it_works_over_spark_connect(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
    connect_packages: Path,
) -> None:
    """On a local server that PySpark starts."""
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic()
    create_topic(flow.source_servers, name=flow.syncs_topic)
    write_syncs(flow, 0, 3)
    file = properties_file(flow.properties(), tmp_path)
    said = ran_python(
        CONNECT,
        str(file),
        str(tmp_path / "table"),
        cwd=tmp_path,
        PYSPARK_PYTHON=sys.executable,
        PYTHONPATH=os.pathsep.join([str(CHECKOUT), str(connect_packages)]),
    )
    module, counted, lags, streamed = json.loads(said.splitlines()[-1])
    assert module.startswith("pyspark.sql.connect.")
    assert (counted, streamed) == (3, 3)
    assert lags == [{"topic": topic, "partition": 0}]


NOTEBOOK = CHECKOUT / "deploy" / "examples" / "flow.ipynb"


def test_the_notebook_runs_with_a_session_of_its_own(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(5))
    group = unique("group")
    commit(flow.source_servers, group, {(topic, 0): 3})
    url = f"sqlite:///{tmp_path}/history.db"
    properties_file(flow.properties({"mirror.history.url": url}), tmp_path)
    history = open_history(SecretStr(url), 7)
    assert history is not None
    copied = CopiedRow(topic, 0, flow.remote(topic), 0, 5, 5, 5, 4711)
    history.add(FlowTask("MirrorSourceConnector", 0, flow.a, flow.b), copied)
    history.close()
    drawn = find_spec("matplotlib") is not None
    cells = [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text())["cells"]
        if cell["cell_type"] == "code"
        and (drawn or "matplotlib" not in cell["metadata"].get("tags", ()))
    ]
    said = ran_python("\n".join(cells), cwd=tmp_path)
    assert re.search(rf"{re.escape(topic)}\s*\|NULL\s*\|1 ", said), "lag: not begun"
    assert re.search(rf"{re.escape(topic)}\s*\|5\s*\|4711", said), "rates"
    assert re.search(rf"{group}\s*\|0\s*\|1 ", said), "failover readiness"
    assert (tmp_path / "flow.svg").exists() == drawn


def ran_python(code: str, *arguments: str, cwd: Path, **environment: str) -> str:
    """What a program printed, in a process of its own, as PySpark has one session in a process."""
    java = find_or_install_java().resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=3 * WAIT_S,
        check=False,
        cwd=cwd,
        env={**os.environ, "JAVA_HOME": str(java), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_flow_that_is_not_in_the_file_is_told_before_a_session_starts(tmp_path: Path) -> None:
    file = properties_file(NOBODY, tmp_path)
    with pytest.raises(ConfigError, match="Flows that copy: A->B"), open_frames(file, "B->A"):
        pytest.fail("there is no such flow")
