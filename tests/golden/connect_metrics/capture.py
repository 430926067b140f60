"""Reads the MBeans of a Java worker (Kafka 4.3.1, distributed) that runs a source and a sink.

Makes mbeans.json: for each MBean its attributes, those that are text with their value, numbers with
null. A worker runs twice, without and with exactly-once sources.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.waiting import wait_until
from tests.support.workers.java import compile_java
from tests.support.workers.java_connect import JavaWorker, java_worker, worker_properties

MBEANS = Path(__file__).with_name("mbeans.json")
SOURCE = Path(__file__).with_name("ConnectMetrics.java")
Beans = dict[str, dict[str, str | None]]
_DUMP_S, _WAIT_S = 60, 60
# What of the worker's clients is kept: the rest of their metrics has nothing to do with Connect.
_KEPT = re.compile(
    r"kafka\.connect:.*"
    r"|kafka\.consumer:type=consumer-fetch-manager-metrics,client-id=connector-consumer-nothing-0.*"
)
_NUMBERS = ("Double", "Long", "Integer")

_TRANSFORM = {
    "transforms": "t",
    "transforms.t.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "transforms.t.header": "h",
    "transforms.t.value.literal": "v",
    "transforms.t.predicate": "p",
    "predicates": "p",
    "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
}
CONNECTORS = {
    "numbers": {"connector.class": "ConnectMetrics$Source", "topic": "numbers", **_TRANSFORM},
    "nothing": {"connector.class": "ConnectMetrics$Sink", "topics": "numbers"},
}


def _running(worker: JavaWorker) -> bool:
    states = []
    for name in CONNECTORS:
        code, status = worker.call("GET", f"/connectors/{name}/status")
        if code != 200:
            return False
        states += [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
    return states == ["RUNNING"] * 4


def _dump(kafka: KafkaRuntime, classes: Path, worker: JavaWorker) -> Beans:
    jars = ":".join(map(str, (classes, *kafka.jars)))
    command = [str(kafka.java), "-cp", jars, "ConnectMetrics", str(worker.process.pid)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=_DUMP_S, check=True)
    beans: Beans = {}
    for line in answer.stdout.splitlines():
        name, attribute, kind, value = line.split("\t")
        if _KEPT.fullmatch(name):
            # The port is another one each time.
            name, value = (re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8083", t) for t in (name, value))
            beans.setdefault(name, {})[attribute] = None if kind in _NUMBERS else value
    return {name: dict(sorted(attributes.items())) for name, attributes in beans.items()}


def _capture(kafka: KafkaRuntime, classes: Path, *, exactly_once: bool) -> Beans:
    support = "enabled" if exactly_once else "disabled"
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaCluster(name="metrics", kafka=kafka) as cluster,
        java_worker(
            replace(kafka, jars=(classes, *kafka.jars)),
            worker_properties(
                cluster.bootstrap_servers, "metrics", {"exactly.once.source.support": support}
            ),
            Path(folder),
            Path(folder) / "connect.log",
        ) as worker,
    ):
        for name, config in CONNECTORS.items():
            worker.put_through("PUT", f"/connectors/{name}/config", config)
        wait_until(lambda: _running(worker), _WAIT_S, "connectors to run")

        def with_lag() -> Beans | None:
            beans = _dump(kafka, classes, worker)
            return beans if any("records-lag" in bean for bean in beans.values()) else None

        beans = wait_until(with_lag, _WAIT_S, "the sink to read")
        assert beans is not None
        return beans


def capture(kafka: KafkaRuntime) -> dict[Path, str]:
    """The file and its text."""
    with tempfile.TemporaryDirectory() as folder:
        compile_java(kafka, SOURCE, Path(folder))
        captured = {
            "at least once": _capture(kafka, Path(folder), exactly_once=False),
            "exactly once": _capture(kafka, Path(folder), exactly_once=True),
        }
    return {MBEANS: json.dumps(captured, indent=1) + "\n"}
