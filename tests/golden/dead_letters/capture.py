"""Has a Java worker (Kafka 4.3.1, standalone) fill a dead letter queue, and keeps what is in it.

Makes letters.json: the queue's records, and the lines that the worker logged for them.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.golden.dead_letters.scenario import dead_letters, produce, sink_config
from tests.support.records.topics import create_topic, end_offset, has_topic, unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.java import with_class
from tests.support.workers.java_standalone import java_standalone, worker_properties

LETTERS = Path(__file__).with_name("letters.json")
_SINK = Path(__file__).with_name("ReportingSinkConnector.java")
_EXPECTED = 6
_WAIT_S = 120.0
# The records have timestamps of long ago, and must be there when the sink reads.
_KEEP = {"log.retention.ms": "-1"}
_LINE = re.compile(r"Error encountered in task .*\.(?= \()")


def capture(kafka: KafkaRuntime) -> dict[Path, str]:
    """The file and its text."""
    with (
        tempfile.TemporaryDirectory() as name,
        KafkaCluster(name="dead", properties=_KEEP, kafka=kafka) as cluster,
    ):
        directory = Path(name)
        kafka = with_class(kafka, _SINK, directory)
        servers, queue = cluster.bootstrap_servers, unique("dead")
        topic = create_topic(servers, "source")
        produce(servers, topic)
        log = directory / "worker.log"
        with java_standalone(kafka, worker_properties(servers, directory), directory, log) as url:
            config = {"connector.class": "ReportingSinkConnector", **sink_config(topic, queue)}
            answer = call(url, "PUT", "/connectors/sink/config", config)
            assert answer.status == 201, answer
            wait_until(lambda: has_topic(servers, queue), _WAIT_S, "the queue")
            wait_until(lambda: end_offset(servers, queue) == _EXPECTED, _WAIT_S, "the dead letters")
        letters = dead_letters(servers, queue, {topic: "source"})
        lines = [line.replace(topic, "source") for line in _LINE.findall(log.read_text())]
    return {LETTERS: json.dumps({"letters": letters, "log": lines}, indent=1) + "\n"}
