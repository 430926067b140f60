"""`mirror.transform` and `transforms` on Spark, between real clusters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connect.errors import ConfigError
from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.spark.copy.executor import ShardLimits
from connectors.mirror.spark.copy.shards import CopyFlow
from connectors.mirror.spark.transform.executor import TransformedShard
from connectors.mirror.spark.transform.plan import FlowTransform
from connectors.spark.errors import SparkJobFailed
from deploy.brokers import KafkaCluster
from deploy.spark_cluster import SparkCluster
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.flows.transformed import (
    JSON,
    SMT,
    TOMBSTONES_AND_TESTS,
    events,
    transforms,
    wait_end,
)
from tests.support.records.groups import commit, latest_checkpoints
from tests.support.records.offset_records import offset_map
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import create_topic, end_offset
from tests.support.spark.flow import ONCE, SPARK, START_S
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, bare_python, session_on
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(900)

SELECT = """
SELECT topic, partition, offset, upper(CAST(value AS STRING)) AS value
FROM records WHERE value IS NOT NULL AND NOT exists(headers, h -> h.key = 'test')
"""

IN_FILE = '''
"""Marks the records of customers that a small table names, in a header."""
from pyspark.sql import functions as F

HELPER = b"!"


def _louder(value: bytes) -> bytes:
    return value.upper() + HELPER


def loud(records):
    udf = F.udf(lambda value: None if value is None else _louder(bytes(value)), "binary")
    session = records.sparkSession
    names = session.createDataFrame([(b"k1", "gold"), (b"k2", "blue")], "key binary, kind string")
    joined = records.join(F.broadcast(names), "key", "left")
    header = F.struct(F.lit("kind").alias("key"), F.col("kind").cast("binary").alias("value"))
    added = F.when(F.col("kind").isNull(), F.col("headers")).otherwise(
        F.concat("headers", F.array(header))
    )
    return joined.select(
        "topic", "partition", "offset", "key", udf("value").alias("value"), added.alias("headers")
    )
'''

LIMITS = ShardLimits(30.0, prepare_s=60.0)


def flow_between(source: KafkaCluster, target: KafkaCluster, **more: str) -> CopyFlow:
    connector = {
        **more,
        "name": "transformed-by-spark",
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
    }
    return CopyFlow(
        connector,
        {"bootstrap.servers": source.bootstrap_servers},
        {"bootstrap.servers": target.bootstrap_servers},
    )


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def test_records_change_and_drop_and_every_offset_leads_to_its_copy(
    spark: SparkSession, source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    """Of two partitions; a third topic of the shard is not transformed."""
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source, partitions=2), create_topic(target, partitions=2)
    plain, plain_copy = create_topic(source), create_topic(target)
    produce(source, topic, events(60), compression="zstd", batch_records=7)
    produce(source, topic, [Record(b"last", partition=1)])
    produce(source, plain, numbered(40), compression="lz4")
    ranges = [
        *(SourceRange((topic, n), (copy, n), 0, end) for n, end in ((0, 58), (1, 1))),
        SourceRange((plain, 0), (plain_copy, 0), 0, 40),
    ]
    kept = [n for n in range(58) if n % 3 and n % 5]

    transform = FlowTransform(SELECT)
    transform.check(spark)
    result = transform.copy(
        spark,
        flow_between(source_cluster, target_cluster),
        TransformedShard(ranges, frozenset({topic})),
        LIMITS,
    )

    assert result.error is None
    assert [(p.done, p.dropped) for p in result.progress] == [
        (True, 58 - len(kept)),
        (True, 0),
        (True, 0),
    ]
    before = read_partition(source, topic)
    found = read_partition(target, copy)
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in found] == [
        (before[n].key, (before[n].value or b"").upper(), before[n].timestamp_ms, before[n].headers)
        for n in kept
    ]
    places = {
        line.source_start + n: line.target_start + n
        for line in result.copied
        if line.source == (topic, 0)
        for n in range(line.records)
    }
    assert places == {offset: place for place, offset in enumerate(kept)}
    assert [r.value for r in read_partition(target, copy, 1)] == [b"LAST"]
    assert contents(read_partition(target, plain_copy)) == contents(read_partition(source, plain))


def test_a_function_of_a_file_has_its_helpers_on_executors_and_joins_small_tables(
    spark: SparkSession,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, [Record(b"v%d" % n, b"k%d" % (n % 3)) for n in range(9)])
    file = tmp_path / "loud.py"
    file.write_text(IN_FILE)
    transform = FlowTransform(f"{file}:loud")
    transform.check(spark)
    shard = TransformedShard([SourceRange((topic, 0), (copy, 0), 0, 9)], frozenset({topic}))
    result = transform.copy(spark, flow_between(source_cluster, target_cluster), shard, LIMITS)
    assert result.error is None
    kinds = {1: [("kind", b"gold")], 2: [("kind", b"blue")], 0: []}
    assert [(r.key, r.value, list(r.headers or ())) for r in read_partition(target, copy)] == [
        (b"k%d" % (n % 3), b"V%d!" % n, kinds[n % 3]) for n in range(9)
    ]


def test_a_failing_function_copies_nothing_and_is_quoted(
    spark: SparkSession, source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(5))
    shard = TransformedShard([SourceRange((topic, 0), (copy, 0), 0, 5)], frozenset({topic}))
    between = flow_between(source_cluster, target_cluster)

    def fails(records: DataFrame) -> DataFrame:
        def raises(_: bytes) -> bytes:
            raise ValueError("cannot read this value")

        return records.withColumn("value", F.udf(raises, "binary", useArrow=False)("value"))

    with pytest.raises(SparkJobFailed, match="cannot read this value"):
        FlowTransform("test", fails).copy(spark, between, shard, LIMITS)

    def doubles(records: DataFrame) -> DataFrame:
        return records.withColumn("again", F.explode(F.array(F.lit(1), F.lit(2)))).drop("again")

    limits = LIMITS._replace(most_s=2.0)
    result = FlowTransform("test", doubles).copy(spark, between, shard, limits)
    (progress,) = result.progress
    assert (progress.position, progress.done) == (0, False)
    assert "more than one row for offset 0" in (progress.error or "")

    # The source has fewer records: none of those that it lacks may count as left out.
    beyond = TransformedShard([SourceRange((topic, 0), (copy, 0), 0, 9)], frozenset({topic}))
    with pytest.raises(SparkJobFailed, match="ends at offset 5"):
        FlowTransform(SELECT).copy(spark, between, beyond, limits)
    probe = TransformedShard(beyond.ranges, frozenset({topic}), frozenset({(topic, 0)}))
    result = FlowTransform(SELECT).copy(spark, between, probe, limits)
    assert "the next shard gets it" in (result.progress[0].error or "")
    assert end_offset(target, copy) == 0


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM records ORDER BY offset DESC", "Sort"),
        ("SELECT DISTINCT * FROM records", "Aggregate"),
        ("SELECT topic, partition, max(offset) AS offset FROM records GROUP BY 1, 2", "Aggregate"),
        ("SELECT topic, partition, offset FROM records LIMIT 5", "Limit"),
        (
            "SELECT topic, partition, offset, first(value) OVER (PARTITION BY key ORDER BY offset) "
            "AS value FROM records",
            "needs more than one record",
        ),
        ("SELECT * FROM records UNION ALL SELECT * FROM records", "Union"),
        ("SELECT /*+ REPARTITION(4) */ * FROM records", "needs more than one record"),
        ("SELECT key, value FROM records", "lacks topic, partition, offset"),
        ("SELECT *, 1 AS extra FROM records", "has extra"),
        ("SELECT topic, partition, offset, 1 AS value FROM records", "column value has type int"),
        ("SELECT topic, partition, offset, valu FROM records", "valu"),
        ("SELECT FROM WHERE", "mirror.transform"),
        ("SELECT * FROM recods", "recods"),
    ],
)
def test_what_needs_more_than_one_record_or_is_wrong_is_refused(
    spark: SparkSession, query: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        FlowTransform(query).check(spark)
    assert refused.value.key == "mirror.transform"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("/no/such/file.py:f", "there is no file"),
        ("no.such.module:f", "No module named"),
        ("os.path:nothing", "it has no function nothing"),
        ("os.path:sep", "it is not a function"),
        ("no-entry-point", "there is no entry point"),
    ],
)
def test_a_name_of_nothing_is_refused(value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        FlowTransform(value)


@pytest.mark.slow
def test_executors_of_a_cluster_have_what_a_transformation_needs(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """Their own Python knows nothing of us; a chain of `transforms` comes after the function."""
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, [Record(b'{"n": %d}' % n, b"k%d" % (n % 3)) for n in range(9)])
    file = tmp_path / "loud.py"
    file.write_text(IN_FILE.replace("value.upper() + HELPER", "value[:-1] + b', \"x\": 1}'"))
    chain = {
        "transforms": "drop",
        "transforms.drop.type": f"{SMT}ReplaceField$Value",
        "transforms.drop.exclude": "n",
        "mirror.transforms.value.converter": JSON,
        "mirror.transforms.value.converter.schemas.enable": "false",
    }
    between = flow_between(source_cluster, target_cluster, **chain)
    shard = TransformedShard(
        [SourceRange((topic, 0), (copy, 0), 0, 9)],
        frozenset({topic}),
        names={topic: f"A.{topic}"},
    )
    path = bare_python(tmp_path / "python")
    with SparkCluster(1, path=[path], logs=logs) as cluster:
        properties = {"spark.master": cluster.url, **SMALL_EXECUTORS, **QUICK_JVM}
        with session_on(properties, frames=True) as session:
            transform = FlowTransform(f"{file}:loud")
            transform.check(session)
            result = transform.copy(session, between, shard, LIMITS)
    assert result.error is None
    assert not result.errors
    kinds = {1: (("kind", b"gold"),), 2: (("kind", b"blue"),), 0: ()}
    assert [(r.value, r.headers) for r in read_partition(target, copy)] == [
        (b'{"x":1}', kinds[n % 3]) for n in range(9)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("once", [{}, ONCE], ids=["at-least-once", "exactly-once"])
def test_a_flow_is_transformed_and_its_groups_move_exactly(
    flow: MirroredFlow, logs: Path, tmp_path: Path, once: Mapping[str, str]
) -> None:
    """Records are dropped by the SELECT and by `transforms`, across a restart; another topic of the
    flow stays as it is."""
    log = logs / "mirror.log"
    topic, plain = flow.topic("events"), flow.topic("plain")
    produce(flow.source_servers, topic, events(60), compression="zstd")
    produce(flow.source_servers, plain, numbered(300), compression="lz4")
    drop_tests = {
        "droptest": {**TOMBSTONES_AND_TESTS["droptest"]},
        "from": {"type": f"{SMT}InsertHeader", "header": "from", "value.literal": "A"},
    }
    properties = flow.properties(
        {
            **SPARK,
            **once,
            "B.offset.flush.interval.ms": "500",
            **transforms(drop_tests),
            "A->B.transforms.from.predicate": "events",
            "A->B.predicates": "null,test,events",
            "A->B.predicates.events.type": f"{SMT}predicates.TopicNameMatches",
            "A->B.predicates.events.pattern": r".*\.events",
            "A->B.mirror.transform": "SELECT topic, partition, offset, upper(CAST(value AS STRING))"
            " AS value FROM records WHERE value IS NOT NULL",
            "A->B.mirror.transform.topics": r".*\.events",
            "groups": f"{flow.prefix}.*",
        }
    )
    kept = [n for n in range(120) if n % 60 % 3 and n % 60 % 5]
    groups = {f"{flow.prefix}.g{n}": n for n in (0, 1, 2, 3, 9, 58, 60)}
    for group, offset in groups.items():
        commit(flow.source_servers, group, {(topic, 0): offset})
    remote = flow.remote(topic)
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(plain, [300], START_S)
        flow.wait_stored(topic, 0, 59, START_S)
        for group, offset in groups.items():
            expected = (offset, _place(flow, topic, kept, offset))
            wait_until(
                lambda: latest_checkpoints(flow, group).get((remote, 0)) == expected,  # noqa: B023
                90,
                f"{group} at {expected}",
            )
        stop_cleanly(mirror, log)
    produce(flow.source_servers, topic, events(60))
    with running(properties, tmp_path, log) as mirror:
        flow.wait_stored(topic, 0, 119, START_S)
        stop_cleanly(mirror, log)
    before = read_partition(flow.source_servers, topic)
    after = read_partition(flow.target_servers, remote, isolation="read_committed")
    assert [(r.key, r.value, r.timestamp_ms, dict(r.headers or ())) for r in after] == [
        (
            before[n].key,
            (before[n].value or b"").upper(),
            before[n].timestamp_ms,
            {**dict(before[n].headers or ()), "from": b"A"},
        )
        for n in kept
    ]
    translate = offset_map(flow.source_servers, flow.map_topic, topic, 0)
    assert [translate.downstream(before[n].offset) for n in kept] == [r.offset for r in after]
    assert_equal_logs(flow, plain)


def _place(flow: MirroredFlow, topic: str, kept: list[int], offset: int) -> int:
    """The target offset of the first kept record from `offset` on, or after the last one."""
    before = [n for n in kept if n < 60]
    copies = read_partition(flow.target_servers, flow.remote(topic), isolation="read_committed")
    later = [copy.offset for n, copy in zip(before, copies, strict=False) if n >= offset]
    return later[0] if later else copies[-1].offset + 1


@pytest.mark.slow
def test_fields_of_json_change_on_executors_and_errors_are_counted(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    """A record that cannot be transformed is skipped with `errors.tolerance=all`."""
    log = logs / "mirror.log"
    topic = flow.topic("orders")
    produce(
        flow.source_servers,
        topic,
        [Record(b'{"card": "4711", "id": %d}' % n if n != 5 else b"no JSON") for n in range(10)],
    )
    stages = {"mask": {"type": f"{SMT}MaskField$Value", "fields": "card"}}
    json_values = {
        "A->B.mirror.transforms.value.converter": JSON,
        "A->B.mirror.transforms.value.converter.schemas.enable": "false",
        "A->B.errors.tolerance": "all",
    }
    properties = flow.properties({**SPARK, **transforms(stages), **json_values})
    with running(properties, tmp_path, log) as mirror:
        wait_end(flow, flow.remote(topic), 9, START_S)
        stop_cleanly(mirror, log)
    assert [r.value for r in read_partition(flow.target_servers, flow.remote(topic))] == [
        b'{"card":"","id":%d}' % n for n in range(10) if n != 5
    ]
