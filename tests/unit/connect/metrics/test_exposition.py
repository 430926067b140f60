"""The text of the /metrics page: names that dashboards know, in a format that parsers take."""

from __future__ import annotations

import gc
import math
import platform
import time
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connect.errors import ConfigError
from connect.metrics.exposition import render
from connect.metrics.naming import Family, parse_families
from connect.metrics.process_metrics import process_metrics, python_metrics
from connect.metrics.registry import MetricSample, MetricValue

CLIENT_ID = "a->b|MirrorSourceConnector-0|replication-consumer"
PARTITION = {"source": "a", "target": "b", "topic": "a.orders", "partition": "3"}

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def page(samples: list[MetricSample], *families: Family) -> str:
    return "".join(render(samples, families or tuple(Family)))


def parse(text: str) -> Series:
    """Every series of the page, by an independent parser; none may appear twice."""
    series: Series = {}
    names: set[str] = set()
    for metric in text_string_to_metric_families(text):
        assert metric.name not in names, f"{metric.name} is described twice"
        names.add(metric.name)
        totals = {sample.name.endswith("_total") for sample in metric.samples}
        assert totals == {metric.type == "counter"}
        assert metric.type in ("counter", "gauge")
        assert metric.documentation
        for sample in metric.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in series, f"{key} twice"
            series[key] = sample.value
    return series


def names(series: Series) -> set[str]:
    return {name for name, _ in series}


def labels(**pairs: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pairs.items()))


def mirror(values: Mapping[str, MetricValue]) -> MetricSample:
    return MetricSample("MirrorSourceConnector", PARTITION, values)


def test_the_page_word_for_word() -> None:
    assert page([mirror({"record-count": 12, "record-age-ms-avg": math.nan})]) == (
        "# HELP kafka_connect_mirror_mirrorsourceconnector_record_count "
        "Records acknowledged by the target since the task started.\n"
        "# TYPE kafka_connect_mirror_mirrorsourceconnector_record_count gauge\n"
        'kafka_connect_mirror_mirrorsourceconnector_record_count{source="a",target="b",'
        'topic="a.orders",partition="3"} 12\n'
        "# HELP kafka_connect_mirror_mirrorsourceconnector_record_age_ms_avg "
        "Mean age of records when read, in milliseconds.\n"
        "# TYPE kafka_connect_mirror_mirrorsourceconnector_record_age_ms_avg gauge\n"
        'kafka_connect_mirror_mirrorsourceconnector_record_age_ms_avg{source="a",target="b",'
        'topic="a.orders",partition="3"} NaN\n'
        "# HELP kafka_connect_mirror_source_connector_record_count "
        "Records acknowledged by the target since the task started.\n"
        "# TYPE kafka_connect_mirror_source_connector_record_count gauge\n"
        'kafka_connect_mirror_source_connector_record_count{source="a",destination="b",'
        'topic="a.orders",partition="3"} 12\n'
        "# HELP kafka_connect_mirror_source_connector_record_age_ms_avg "
        "Mean age of records when read, in milliseconds.\n"
        "# TYPE kafka_connect_mirror_source_connector_record_age_ms_avg gauge\n"
        'kafka_connect_mirror_source_connector_record_age_ms_avg{source="a",destination="b",'
        'topic="a.orders",partition="3"} NaN\n'
    )


@pytest.mark.parametrize("attribute", ["record-lag", "time-lag-ms", "shallow-record-count"])
def test_our_own_attributes_are_in_each_family(attribute: str) -> None:
    word = attribute.replace("-", "_")
    short = f"kafka_connect_mirror_mirrorsourceconnector_{word}"
    spelled = f"kafka_connect_mirror_source_connector_{word}"

    for family, name in ((Family.A, short), (Family.B, spelled), (Family.C, short)):
        assert names(parse(page([mirror({attribute: 5})], family))) == {name}


def test_checkpoint_metrics_keep_source_and_target_in_every_family() -> None:
    tags = {"source": "a", "target": "b", "group": "g", "topic": "a.t", "partition": "0"}
    series = parse(
        page([MetricSample("MirrorCheckpointConnector", tags, {"checkpoint-latency-ms": 1})])
    )

    assert set(series) == {
        (f"kafka_connect_mirror_{word}_checkpoint_latency_ms", labels(**tags))
        for word in ("mirrorcheckpointconnector", "checkpoint_connector")
    }


@pytest.mark.parametrize(
    ("group", "tags", "attribute", "short", "long"),
    [
        ("connect-worker-metrics", {}, "connector-count",
         "kafka_connect_worker_connector_count",
         "kafka_connect_connect_worker_metrics_connector_count"),
        ("connect-worker-metrics", {"connector": "c"}, "connector-failed-task-count",
         "kafka_connect_worker_connector_failed_task_count",
         "kafka_connect_connect_worker_metrics_connector_failed_task_count"),
        ("connect-worker-rebalance-metrics", {}, "rebalancing",
         "kafka_connect_worker_rebalance_rebalancing",
         "kafka_connect_connect_worker_rebalance_metrics_rebalancing"),
        ("connect-coordinator-metrics", {}, "assigned-tasks",
         "kafka_connect_coordinator_assigned_tasks",
         "kafka_connect_connect_coordinator_metrics_assigned_tasks"),
        ("connector-task-metrics", {"connector": "c", "task": "0"}, "offset-commit-avg-time-ms",
         "kafka_connect_connector_task_offset_commit_avg_time_ms",
         "kafka_connect_connector_task_metrics_offset_commit_avg_time_ms"),
        ("source-task-metrics", {"connector": "c", "task": "0"}, "source-record-active-count",
         "kafka_connect_source_task_source_record_active_count",
         "kafka_connect_source_task_metrics_source_record_active_count"),
        ("task-error-metrics", {"connector": "c", "task": "0"}, "total-record-errors",
         "kafka_connect_task_error_total_record_errors",
         "kafka_connect_task_error_metrics_total_record_errors"),
    ],
)  # fmt: skip
def test_names_of_the_framework_s_groups(
    group: str, tags: dict[str, str], attribute: str, short: str, long: str
) -> None:
    sample = MetricSample(group, tags, {attribute: 1.5})

    for family, name in ((Family.A, short), (Family.B, short), (Family.C, long)):
        assert parse(page([sample], family)) == {(name, labels(**tags)): 1.5}
    assert names(parse(page([sample]))) == {short, long}


def test_the_consumer_s_client_id_has_jmx_quotes_in_families_a_and_b() -> None:
    tags = {"client-id": CLIENT_ID, "topic": "orders", "partition": "0"}
    lag = MetricSample("consumer-fetch-manager-metrics", tags, {"records-lag": 7})
    text = page([lag])

    assert (
        'kafka_consumer_fetch_manager_records_lag{clientid="\\"a->b|MirrorSourceConnector-0|'
        'replication-consumer\\"",topic="orders",partition="0",clientId='
    ) in text
    short, quoted = "kafka_consumer_fetch_manager_records_lag", f'"{CLIENT_ID}"'
    where = {"topic": "orders", "partition": "0"}
    of_a = {(short, labels(clientid=quoted, **where)): 7}
    of_b = {(short, labels(clientid=quoted, clientId=quoted, **where)): 7}
    of_c = {
        ("kafka_consumer_consumer_fetch_manager_metrics_records_lag",
         labels(client_id=CLIENT_ID, **where)): 7
    }  # fmt: skip
    assert parse(page([lag], Family.A)) == of_a
    # One series of a name that families share, so that a sum counts it once.
    assert parse(page([lag], Family.A, Family.B)) == of_b
    assert parse(page([lag], Family.B, Family.A)) == of_b
    assert parse(text) == {**of_b, **of_c}


def test_redpanda_names_a_task_s_producer_by_connector_and_task() -> None:
    of_task, of_worker = (
        MetricSample("producer-metrics", {"client-id": client}, {"record-send-total": 7})
        for client in ("connector-producer-my-mirror-12", "connect-configs-producer")
    )
    found = parse(page([of_task, of_worker], Family.B))
    assert {name for name, _ in found} == {
        "kafka_producer_record_send_total",
        "kafka_connector_producer_record_send_total",
    }
    assert [each for each in found if each[0].startswith("kafka_connector")] == [
        ("kafka_connector_producer_record_send_total", labels(connector="my-mirror", task="12"))
    ]
    assert not any("kafka_connector" in name for name in names(parse(page([of_task], Family.A))))


def test_a_state_is_a_label_of_a_series_that_is_one() -> None:
    tags = {"connector": "c", "task": "0"}
    samples = [
        MetricSample("connector-task-metrics", tags, {"status": "running", "running-ratio": 1}),
        MetricSample("connector-metrics", {"connector": "c"}, {"status": "failed"}),
    ]

    assert parse(page(samples, Family.A)) == {
        ("kafka_connect_connector_status", labels(**tags, status="running")): 1,
        ("kafka_connect_connector_task_status", labels(**tags, status="running")): 1,
        ("kafka_connect_connector_task_running_ratio", labels(**tags)): 1,
    }
    assert parse(page(samples, Family.C)) == {
        ("kafka_connect_connector_task_metrics", labels(**tags, status="running")): 1,
        ("kafka_connect_connector_task_metrics_status_info", labels(**tags, status="running")): 1,
        ("kafka_connect_connector_task_metrics_running_ratio", labels(**tags)): 1,
        ("kafka_connect_connector_metrics", labels(connector="c", status="failed")): 1,
        ("kafka_connect_connector_metrics_status_info", labels(connector="c", status="failed")): 1,
    }


def test_odd_characters_survive_the_way_through_a_parser() -> None:
    name = 'back\\slash "quotes"\nnew line äöü {}=,'
    sample = MetricSample("connector-metrics", {"connector": name}, {"x": 1})

    assert parse(page([sample], Family.C)) == {
        ("kafka_connect_connector_metrics_x", labels(connector=name)): 1
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"), (0, "0"), (1e21, "1e+21")],
)
def test_numbers(value: float, text: str) -> None:
    line = page([MetricSample("g", {}, {"x": value})], Family.C).splitlines()[-1]

    assert line == f"kafka_connect_g_x {text}"
    parsed = parse(
        line.join(["# HELP kafka_connect_g_x x\n# TYPE kafka_connect_g_x gauge\n", "\n"])
    )
    assert [str(float(number)) for number in parsed.values()] == [str(float(value))]


@pytest.mark.parametrize("group", ["metrics-registry", "plugins", "MirrorSourceConnector"])
def test_a_name_that_families_share_appears_once(group: str) -> None:
    tags = {"client-id": CLIENT_ID}

    assert list(parse(page([MetricSample(group, tags, {"x": 1})], Family.A, Family.C))) == [
        (name, labels(client_id=CLIENT_ID))
        for name in names(parse(page([MetricSample(group, tags, {"x": 1})], Family.C)))
    ]


def test_of_two_registrations_with_the_same_tags_the_later_is_shown() -> None:
    series = parse(page([mirror({"record-count": 1}), mirror({"record-count": 2})], Family.A))

    assert list(series.values()) == [2]


def test_an_attribute_that_only_some_members_have() -> None:
    other = MetricSample(
        "MirrorSourceConnector", {**PARTITION, "partition": "4"}, {"record-lag": 9}
    )
    series = parse(page([mirror({"record-count": 1}), other], Family.A))

    assert sorted(series.values()) == [1, 9]


def test_families_are_chosen_by_letter() -> None:
    assert parse_families([]) == (Family.A,)
    assert parse_families(["a, C"]) == (Family.A, Family.C)
    assert parse_families(["B", "A", "B"]) == (Family.B, Family.A)
    with pytest.raises(ConfigError, match="Invalid value D for family: use A, B or C"):
        parse_families(["A,d"])


def test_ten_thousand_partitions_take_about_a_second() -> None:
    """The bound is far above that: CPU time, too, is longer beside other work."""
    attributes = {f"attribute-{n}": 1.25 for n in range(18)}
    samples = [
        MetricSample("MirrorSourceConnector", {**PARTITION, "partition": str(n)}, attributes)
        for n in range(10_000)
    ]
    began = time.process_time()
    lines = sum(block.count("\n") for block in render(samples, tuple(Family)))

    assert lines == 2 * 18 * (10_000 + 2)
    assert time.process_time() - began < 3.0


def test_totals_are_counters_in_every_family() -> None:
    sample = MetricSample(
        "sink-task-metrics",
        {"connector": "c", "task": "0"},
        {"sink-record-read-total": 7, "sink-record-read-rate": 0.5},
    )
    assert [line for line in page([sample]).splitlines() if line.startswith("# TYPE")] == [
        "# TYPE kafka_connect_sink_task_sink_record_read_total counter",
        "# TYPE kafka_connect_sink_task_sink_record_read_rate gauge",
        "# TYPE kafka_connect_sink_task_metrics_sink_record_read_total counter",
        "# TYPE kafka_connect_sink_task_metrics_sink_record_read_rate gauge",
    ]


def test_states_and_classes_have_the_names_of_strimzis_rules_and_of_its_reporter() -> None:
    connector = {"status": "running", "connector-class": "X", "connector-type": "sink"}
    series = parse(
        page(
            [
                MetricSample("connector-metrics", {"connector": "c"}, connector),
                MetricSample(
                    "connector-task-metrics", {"connector": "c", "task": "0"}, {"status": "failed"}
                ),
            ]
        )
    )
    task = {"connector": "c", "task": "0", "status": "failed"}
    for name, shown in (
        ("kafka_connect_connector_status", task),
        ("kafka_connect_connector_task_status", task),
        ("kafka_connect_connector_task_metrics_status_info", task),
        ("kafka_connect_connector_connector_class", {"connector": "c", "connector_class": "X"}),
        ("kafka_connect_connector_connector_type", {"connector": "c", "connector_type": "sink"}),
        ("kafka_connect_connector_metrics_status_info", {"connector": "c", "status": "running"}),
    ):
        assert series[name, labels(**shown)] == 1, name


def test_the_process_has_the_names_of_prometheus_own_clients() -> None:
    series = parse(page([MetricSample("process", {}, process_metrics())]))
    assert names(series) == {
        "process_cpu_seconds_total",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_max_fds",
    }
    value = {name: number for (name, _), number in series.items()}
    assert 0 < value["process_cpu_seconds_total"] < time.time()
    assert 0 <= time.time() - value["process_start_time_seconds"] < 24 * 3600
    assert 0 < value["process_resident_memory_bytes"] < value["process_virtual_memory_bytes"]
    assert 0 < value["process_open_fds"] < value["process_max_fds"]


def test_the_interpreter_has_the_names_of_prometheus_own_client() -> None:
    series = parse(page(list(python_metrics())))
    assert names(series) == {
        "python_info",
        "python_gc_objects_collected_total",
        "python_gc_objects_uncollectable_total",
        "python_gc_collections_total",
    }
    (told,) = (dict(own) for name, own in series if name == "python_info")
    assert told["version"] == platform.python_version()
    assert {"implementation", "major", "minor", "patchlevel"} <= told.keys()
    for generation in "012":
        key = ("python_gc_collections_total", labels(generation=generation))
        assert series[key] <= gc.get_stats()[int(generation)]["collections"]
