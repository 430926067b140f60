"""Failed records under `errors.*`, on a real broker: dead letter queue, log, and what comes after.

`tests/golden/dead_letters` has what Kafka Connect 4.3.1 does with the same records.
"""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from connect.runtime.plugins.override_policy import NoneConnectorClientConfigOverridePolicy
from connect.runtime.states import State
from connect.sdk import (
    ConfigDef,
    ConnectError,
    RecordMetadata,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from deploy.brokers import KafkaCluster
from tests.golden.dead_letters.scenario import RECORDS, dead_letters, produce, sink_config
from tests.support.records.topics import alter_topic, create_topic, end_offset, has_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import Bench
from tests.support.workers.plugins import Events, SimpleSinkConnector

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "dead_letters" / "letters.json").read_text()
)
GROUP = "task-error-metrics"
FIRST_MS = 1_700_000_000_000


class ReportingSinkConnector(SimpleSinkConnector):
    """As the Java class of this name: records whose value is "report" are reported."""

    def task_class(self) -> type[SinkTask]:
        return ReportingSinkTask


class ReportingSinkTask(SinkTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._topic = config["topics"]

    def put(self, records: Sequence[SinkRecord]) -> None:
        reporter = self.context.errant_record_reporter()
        for record in records:
            if record.value == "report" and reporter is None:
                Events.tell(self._topic, "nobody to report to")
            elif record.value == "report":
                assert reporter is not None
                try:
                    reporter.report(record, ConnectError("refused"))
                except ConnectError:
                    Events.tell(self._topic, "was told to end")
            else:
                Events.tell(self._topic, f"put {record.original_offset}")

    def pre_commit(self, offsets: Mapping[Any, int]) -> Mapping[Any, int]:
        Events.tell(self._topic, f"commit {sorted(offsets.values())}")
        return offsets

    def stop(self) -> None:
        """Nothing was opened."""


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    bench.plugins.register(ReportingSinkConnector)
    bench.plugins.register(MixedConnector)
    yield bench
    bench.close()


def put_sink(bench: Bench, queue: str, **changes: str) -> str:
    """The name of a connector that is no other test's, and so has a group of its own."""
    name = unique("sink")
    config = {**sink_config(bench.topic, queue), **changes}
    bench.herder.put_connector(name, {"connector.class": "ReportingSink", "name": name, **config})
    return name


def trace_of(bench: Bench, name: str) -> str:
    bench.becomes(State.RUNNING, State.FAILED, name=name)
    return str(bench.herder.status(name).tasks[0].status.trace)


def error_counts(bench: Bench, name: str) -> dict[str, float]:
    tags = {"connector": name, "task": "0"}
    samples = [s for s in bench.metrics.collect() if s.group == GROUP and s.tags == tags]
    (values,) = [sample.values for sample in samples]
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def test_dead_letters_and_log_lines_are_javas(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    produce(bench.servers, bench.topic)
    queue = unique("dead")
    with caplog.at_level(logging.ERROR, "connect.runtime.error_handling.reporters"):
        name = put_sink(bench, queue)
        bench.told(f"commit [{len(RECORDS)}]")
    letters = dead_letters(bench.servers, queue, {bench.topic: "source", name: "sink"})
    assert letters == GOLDEN["letters"]
    lines = [line.replace(name, "sink").replace(bench.topic, "source") for line in caplog.messages]
    assert sorted(lines) == sorted(GOLDEN["log"])
    assert bench.puts() == ["put 0", "put 7"]
    counts = error_counts(bench, name)
    assert counts.pop("last-error-timestamp") > FIRST_MS
    assert counts == {
        "total-record-failures": 6,
        "total-record-errors": 5,
        "total-records-skipped": 5,
        "total-retries": 0,
        "total-errors-logged": 6,
        "deadletterqueue-produce-requests": 6,
        "deadletterqueue-produce-failures": 0,
    }


def test_without_context_the_queue_has_the_record_as_it_was(bench: Bench) -> None:
    queue = create_topic(bench.servers, "dead")
    produce(bench.servers, bench.topic)
    put_sink(bench, queue, **{"errors.deadletterqueue.context.headers.enable": "false"})
    bench.told(f"commit [{len(RECORDS)}]")
    assert dead_letters(bench.servers, queue, {})[0] == {
        "key": '"k1"',
        "value": '{"a": ',
        "timestamp": FIRST_MS + 1000,
        "headers": [["h", '{"known": true}']],
    }


def test_without_tolerance_the_first_bad_record_is_set_aside_and_fails_the_task(
    bench: Bench,
) -> None:
    queue = unique("dead")
    produce(bench.servers, bench.topic)
    name = put_sink(bench, queue, **{"errors.tolerance": "none"})
    trace = trace_of(bench, name)
    assert "Tolerance exceeded in error handler: stage VALUE_CONVERTER" in trace
    assert f"offset 1 of {bench.topic}-0" in trace
    wait_until(lambda: end_offset(bench.servers, queue) == 1, 30.0, "the dead letter")


def test_a_task_that_goes_on_after_its_report_was_refused_fails(bench: Bench) -> None:
    bench.produce(b'"report"')
    name = put_sink(bench, unique("dead"), **{"errors.tolerance": "none"})
    assert "TASK_PUT" in trace_of(bench, name)
    assert "was told to end" in Events.of(bench.topic)


def test_without_queue_and_log_there_is_nobody_to_report_to(bench: Bench) -> None:
    bench.produce(b'"report"')
    put_sink(bench, "", **{"errors.log.enable": "false"})
    bench.told("nobody to report to")


def test_a_queue_that_cannot_be_made_fails_the_task_and_says_how_to_mend_it(bench: Bench) -> None:
    queue = unique("dead")
    factor = "errors.deadletterqueue.topic.replication.factor"
    trace = trace_of(bench, put_sink(bench, queue, **{factor: "3"}))
    assert f"Could not initialize dead letter queue with topic={queue}" in trace
    assert factor in trace
    assert not has_topic(bench.servers, queue)


@pytest.mark.parametrize("client", ["producer", "consumer", "admin"])
def test_all_clients_of_a_sink_with_a_queue_are_checked_by_the_policy(
    bench: Bench, client: str
) -> None:
    bench.worker.clients.policy = NoneConnectorClientConfigOverridePolicy()
    name = put_sink(bench, unique("dead"), **{f"{client}.override.client.rack": "r"})
    assert "The 'None' policy does not allow 'client.rack'" in trace_of(bench, name)


def test_a_letter_that_does_not_fit_is_counted_and_the_task_goes_on(bench: Bench) -> None:
    queue = create_topic(bench.servers, "dead", configs={"max.message.bytes": "300"})
    bench.produce(b"{" * 1000)
    bench.produce(b'"good"')
    name = put_sink(bench, queue)
    bench.told("commit [2]")
    counts = error_counts(bench, name)
    assert counts["deadletterqueue-produce-failures"] == 1
    assert "put 1" in Events.of(bench.topic)


def test_a_reported_record_that_does_not_fit_fails_the_task(bench: Bench) -> None:
    queue = create_topic(bench.servers, "dead", configs={"max.message.bytes": "100"})
    bench.produce(b'"report"')
    name = put_sink(bench, queue)
    assert "Cannot write a record that the task reported to dead letter queue" in trace_of(
        bench, name
    )
    assert not any(event.startswith("commit [1]") for event in Events.of(bench.topic))


class MixedConnector(SourceConnector):
    """One task; `values` are its records' values, in Python."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return MixedTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self.config]

    def stop(self) -> None:
        """Nothing was opened."""


class MixedTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._topic = config["topic"]
        self._left = list(ast.literal_eval(config["values"]))

    def poll(self) -> Sequence[SourceRecord] | None:
        values, self._left = self._left, []
        return [
            SourceRecord({"p": 0}, {"o": number}, self._topic, 0, None, value)
            for number, value in enumerate(values)
        ]

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        what = "skipped" if metadata is None else "produced"
        Events.tell(self._topic, f"{what} {record.source_offset['o']}")

    def stop(self) -> None:
        """Nothing was opened."""


def put_source(bench: Bench, values: list[object], **config: str) -> str:
    name = unique("mixed")
    bench.put("Mixed", name, values=repr(values), errors_log_enable="true", **config)
    return name


def test_a_source_skips_what_its_converter_cannot_take(bench: Bench) -> None:
    name = put_source(bench, [b"one", 2, b"three"], errors_tolerance="all")
    bench.arrived("one", "three")
    bench.told("skipped 1")
    assert error_counts(bench, name)["total-records-skipped"] == 1
    assert error_counts(bench, name)["total-errors-logged"] == 1
    assert bench.states(name) == [State.RUNNING, State.RUNNING]
    trace = trace_of(bench, put_source(bench, [2]))
    assert "stage VALUE_CONVERTER" in trace


def test_a_source_skips_what_kafka_does_not_take_and_nothing_beside_it(bench: Bench) -> None:
    alter_topic(bench.servers, bench.topic, {"max.message.bytes": "1000"})
    values: list[object] = [b"%d" % number for number in range(20)]
    values[7] = b"x" * 5000
    name = put_source(bench, values, errors_tolerance="all", producer_override_linger_ms="50")
    bench.arrived(*[str(number) for number in range(20) if number != 7])
    bench.told("skipped 7")
    assert len([event for event in Events.of(bench.topic) if event.startswith("skipped")]) == 1
    assert bench.states(name) == [State.RUNNING, State.RUNNING]
    trace = trace_of(bench, put_source(bench, values, producer_override_linger_ms="50"))
    assert "MESSAGE_TOO_LARGE" in trace
