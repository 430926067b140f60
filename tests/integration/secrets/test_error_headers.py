"""Dead letter queues, quarantine topics and the history do not have the secrets that a careless
plugin quotes in the error for a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from connect.sdk import DataError, SinkRecord, SinkTask
from tests.integration.secrets.broker import Guarded
from tests.support.flows.mirrored import MirroredFlow, running
from tests.support.flows.transformed import transforms
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import ReadRecord, read_partition
from tests.support.records.topics import end_offset, has_topic, unique
from tests.support.security.canaries import Canaries
from tests.support.waiting import wait_until
from tests.support.workers.bench import Bench
from tests.support.workers.plugins import SimpleSinkConnector

PLUGINS = Path(__file__).parents[2] / "plugins"
WAIT_S = 60.0


class CarelessSinkConnector(SimpleSinkConnector):
    def task_class(self) -> type[SinkTask]:
        return CarelessSinkTask


class CarelessSinkTask(SinkTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def put(self, records: Sequence[SinkRecord]) -> None:
        reporter = self.context.errant_record_reporter()
        assert reporter is not None
        for record in records:
            reporter.report(record, DataError(f"refused with {self._config}"))

    def stop(self) -> None:
        """Nothing was opened."""


def first_record(servers: str, topic: str) -> ReadRecord:
    wait_until(
        lambda: has_topic(servers, topic) and end_offset(servers, topic),
        WAIT_S,
        f"a record in {topic}",
    )
    return read_partition(servers, topic)[0]


def texts(record: ReadRecord) -> bytes:
    return b"\n".join(value or b"" for _, value in record.headers)


@pytest.fixture
def canaries(guarded: Guarded) -> Canaries:
    return guarded.canaries


def test_headers_of_dead_letters_have_no_secret(guarded: Guarded, canaries: Canaries) -> None:
    bench, queue = Bench(guarded.cluster), unique("dead")
    try:
        bench.plugins.register(CarelessSinkConnector)
        produce(bench.servers, bench.topic, numbered(1))
        name = unique("careless")
        config = {
            "connector.class": "CarelessSink",
            "topics": bench.topic,
            "db.password": canaries.awkward("the sink's password"),
            "url": f"https://ali:{canaries.new('the password of a URL')}@db.example/",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": queue,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        bench.herder.put_connector(name, {"name": name, **config})
        found = texts(first_record(bench.servers, queue))
    finally:
        bench.close()
    assert b"refused with" in found
    assert canaries.leaked("the headers", found) == []


def test_headers_of_quarantined_records_and_the_history_have_no_secret(
    guarded: Guarded, canaries: Canaries, tmp_path: Path, logs: Path
) -> None:
    flow = MirroredFlow(guarded.cluster, guarded.cluster)
    topic, aside, log = flow.topic(), unique("aside"), logs / "mirror.log"
    produce(flow.source_servers, topic, [Record(b"a")])
    history = tmp_path / "history.db"
    pin = canaries.new("a PASSWORD key of a transformation")
    stages = {"careless": {"type": "careless.CarelessTransform", "pin": pin}}
    properties = flow.properties(
        {
            **transforms(stages),
            "B.plugin.path": str(PLUGINS),
            "mirror.quarantine.topic": aside,
            "mirror.history.url": f"sqlite:///{history}",
        }
    )
    with running(properties, tmp_path / "run", log) as mirror:
        found = texts(first_record(flow.target_servers, aside))
        flow.wait_stored(topic, 0, 0)
        assert mirror.stop(WAIT_S) == 0
    assert b"cannot transform" in found
    assert b"cannot transform" in history.read_bytes()
    leaked = canaries.leaked("the headers", found)
    assert leaked + canaries.leaked_by_files(log, history) == []
