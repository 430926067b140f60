"""Has a Java worker (Kafka 4.3.1, standalone) fill a dead letter queue, and keeps what is in it.

Run by hand from the repository's root: `python -m tests.golden.dead_letters.capture`; needs a JDK.
Makes letters.json: the queue's records, and the lines that the worker logged for them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from deploy.brokers import KafkaCluster, kafka_runtime
from tests.compat.test_rest_parity import java_standalone, worker_properties
from tests.golden.dead_letters.scenario import dead_letters, produce, sink_config
from tests.support.rest import call
from tests.support.topics import create_topic, end_offset, topic_names, unique
from tests.support.waiting import wait_until

LETTERS = Path(__file__).with_name("letters.json")
_SINK = Path(__file__).with_name("ReportingSinkConnector.java")
_EXPECTED = 6
_LINE = re.compile(r"Error encountered in task .*\.(?= \()")


def main() -> int:
    kafka = kafka_runtime()
    with tempfile.TemporaryDirectory() as name, KafkaCluster(name="dead", kafka=kafka) as cluster:
        directory = Path(name)
        jars = ":".join(map(str, kafka.jars))
        subprocess.run(
            ["javac", "-cp", jars, "-d", str(directory), str(_SINK)], check=True, timeout=120
        )
        kafka = replace(kafka, jars=(*kafka.jars, directory))
        servers, queue = cluster.bootstrap_servers, unique("dead")
        topic = create_topic(servers, "source")
        produce(servers, topic)
        log = directory / "worker.log"
        with java_standalone(kafka, worker_properties(servers, directory), directory, log) as url:
            config = {"connector.class": "ReportingSinkConnector", **sink_config(topic, queue)}
            answer = call(url, "PUT", "/connectors/sink/config", config)
            assert answer.status == 201, answer
            wait_until(lambda: queue in topic_names(servers), 60.0, "the queue")
            wait_until(lambda: end_offset(servers, queue) == _EXPECTED, 60.0, "the dead letters")
        letters = dead_letters(servers, queue, {topic: "source"})
        lines = [line.replace(topic, "source") for line in _LINE.findall(log.read_text())]
    LETTERS.write_text(json.dumps({"letters": letters, "log": lines}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
