"""The mirror's connectors, as far as no cluster is needed."""

from __future__ import annotations

from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror import plugins
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.heartbeat import MirrorHeartbeatConnector, MirrorHeartbeatTask
from connectors.mirror.source.connector import MirrorSourceConnector, validate_source
from connectors.mirror.source.task import MirrorSourceTask
from connectors.mirror.topics.clusters import internal_topics
from tests.support.fake_clock import FakeClock

JAVA = "org.apache.kafka.connect.mirror."
PROPS = {
    "name": "MirrorSourceConnector",
    "connector.class": f"{JAVA}MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
}


def test_connectors_answer_to_their_java_names() -> None:
    registry = PluginRegistry(discover=False)
    plugins.register(registry)
    assert registry.connector(f"{JAVA}MirrorSourceConnector") is MirrorSourceConnector
    assert registry.connector("MirrorHeartbeatConnector") is MirrorHeartbeatConnector
    assert registry.name_of(MirrorSourceConnector) == f"{JAVA}MirrorSourceConnector"


def keys_in_error(**changes: str) -> list[str]:
    given = {key.replace("_", "."): value for key, value in changes.items()}
    return [problem.key for problem in validate_source({**PROPS, **given})]


def test_exactly_once_needs_committed_reads() -> None:
    required = {"exactly_once_support": "required"}
    assert keys_in_error(**required) == ["exactly.once.support"]
    assert keys_in_error(**required, consumer_isolation_level="read_committed") == []
    assert keys_in_error(**required, source_consumer_isolation_level="read_committed") == []
    # Among a cluster's properties the isolation level reaches no client.
    misplaced = {"source_cluster_isolation_level": "read_committed"}
    assert keys_in_error(**required, **misplaced) == ["exactly.once.support"]
    assert keys_in_error(exactly_once_support="requested") == []


def test_the_copy_on_spark_needs_nothing_besides() -> None:
    spark = {"mirror_engine": "spark"}
    assert keys_in_error(**spark) == []
    committed = {"exactly_once_support": "required", "consumer_isolation_level": "read_committed"}
    assert keys_in_error(**spark, **committed) == []
    assert keys_in_error(mirror_engine="flink") == ["mirror.engine"]


def test_a_history_at_no_url_is_an_error() -> None:
    assert keys_in_error(mirror_history_url="database") == ["mirror.history.url"]
    assert keys_in_error(mirror_history_url="none") == []


def test_engines_tasks_have_one_name_and_the_config_chooses() -> None:
    registry = PluginRegistry(discover=False)
    plugins.register(registry)
    on_workers = MirrorSourceConnector.task_class_for({**PROPS})
    on_spark = MirrorSourceConnector.task_class_for({**PROPS, "mirror.engine": "spark"})
    assert (on_workers.__name__, on_spark.__name__) == ("MirrorSourceTask", "SparkSourceTask")
    names = {registry.name_of(task) for task in (on_workers, on_spark)}
    assert names == {f"{JAVA}MirrorSourceTask"}


def test_a_source_connector_can_write_exactly_once_where_it_reads_committed_records() -> None:
    committed = {**PROPS, "source.consumer.isolation.level": "read_committed"}
    assert MirrorSourceConnector.exactly_once_support(committed) is True
    assert MirrorSourceConnector.exactly_once_support(PROPS) is False
    # As MirrorMaker 2's, it leaves its transactions' ends to the worker.
    assert MirrorSourceConnector.can_define_transaction_boundaries(committed) is False


def test_settings_of_offset_syncs_that_are_off_are_an_error() -> None:
    off = {**PROPS, "emit.offset-syncs.enabled": "false"}
    assert validate_source(off) == []
    (problem,) = validate_source({**off, "offset-syncs.topic.location": "target"})
    assert problem.key == "emit.offset-syncs.enabled"
    assert "offset-syncs.topic.location" in problem.message


def test_every_problem_is_told_not_only_the_first() -> None:
    assert keys_in_error(exactly_once_support="required", topics="a(") == [
        "exactly.once.support",
        "topics",
    ]


def own_topics(**changes: str) -> dict[str, int]:
    return internal_topics(SourceConfig.from_properties({**PROPS, **changes}))


def test_own_topics_are_called_after_the_cluster_they_are_not_on() -> None:
    assert own_topics() == {"mm2-offset-syncs.B.internal": 3, "mm2-offset-map.B.internal": 3}
    assert own_topics(
        **{"offset-syncs.topic.location": "target", "offset-syncs.topic.replication.factor": "2"}
    ) == {"mm2-offset-syncs.A.internal": 2, "mm2-offset-map.A.internal": 2}
    assert own_topics(**{"mirror.offset.map.enabled": "false"}) == {
        "mm2-offset-syncs.B.internal": 3
    }
    assert own_topics(**{"emit.offset-syncs.enabled": "false"}) == {"mm2-offset-map.B.internal": 3}


def test_a_heartbeat_carries_one_time_in_value_and_record() -> None:
    task = MirrorHeartbeatTask(FakeClock(1_700_000_000_000))
    task.start({**PROPS, "name": "hb", "emit.heartbeats.interval.seconds": "0"})
    records = task.poll()
    assert records is not None
    (record,) = records
    assert (record.topic, record.partition) == ("heartbeats", 0)
    assert record.key == bytes.fromhex("000141000142")
    assert record.value == bytes.fromhex("00000000018bcfe56800")
    assert record.timestamp_ms == 1_700_000_000_000
    # The stored key is these entries as JSON, in this order.
    assert list(record.source_partition.items()) == [
        ("sourceClusterAlias", "A"),
        ("targetClusterAlias", "B"),
    ]
    assert record.source_offset == {"offset": 0}


def test_a_heartbeat_task_that_is_stopping_does_not_wait() -> None:
    task = MirrorHeartbeatTask()
    task.start({**PROPS, "name": "hb", "emit.heartbeats.interval.seconds": "3600"})
    task.stopping()
    assert task.poll() is None


def test_a_task_that_only_gets_more_partitions_need_not_stop() -> None:
    def config(partitions: str, **more: str) -> dict[str, str]:
        return {**PROPS, "task.index": "0", "task.assigned.partitions": partitions, **more}

    before = config("a-0,b-1")
    assert MirrorSourceTask.only_adds(before, config("b-1,c-7,a-0"))
    assert MirrorSourceTask.only_adds(before, before)
    assert not MirrorSourceTask.only_adds(before, config("a-0,c-7"))
    assert not MirrorSourceTask.only_adds(before, config("a-0,b-1,c-7", **{"offset.lag.max": "0"}))
