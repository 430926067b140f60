"""Asks a Java worker (Kafka 4.3.1, standalone) to validate configs, and keeps its answers.

Makes answers.json: for each case the config, the status, and the answer without documentation
texts; of the entries only those that differ from the answer to the good config of the same
connector.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from deploy.brokers import KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.waiting import wait_until
from tests.support.workers.java import java_process

ANSWERS = Path(__file__).with_name("answers.json")
GOOD = {"MirrorSourceConnector": "source", "MirrorHeartbeatConnector": "heartbeat"}

_MIRROR = "org.apache.kafka.connect.mirror."
_KAFKA = "org.apache.kafka.connect."
_CLUSTERS = {
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "localhost:1",
    "target.cluster.bootstrap.servers": "localhost:2",
}
_SOURCE: dict[str, str | None] = {
    "connector.class": f"{_MIRROR}MirrorSourceConnector",
    "name": "s",
    "topics": "none-.*",
    **_CLUSTERS,
}
_HEARTBEAT: dict[str, str | None] = {
    "connector.class": f"{_MIRROR}MirrorHeartbeatConnector",
    "name": "h",
    **_CLUSTERS,
}

CASES: dict[str, dict[str, str | None]] = {
    "source": _SOURCE,
    "heartbeat": _HEARTBEAT,
    "source: empty": {"connector.class": "MirrorSourceConnector"},
    "heartbeat: empty": {"connector.class": "MirrorHeartbeatConnector"},
    "source: many errors": {
        **_SOURCE,
        "name": "",
        "tasks.max": "x",
        "replication.factor": "many",
        "errors.tolerance": "some",
        "config.action.reload": "later",
        "transforms": "a,a",
        "predicates": "p,p",
        "exactly.once.support": "maybe",
        "transaction.boundary": "x",
        "transaction.boundary.interval.ms": "-1",
        "offsets.storage.topic": "",
        "unknown": "5",
        "errors.retry.timeout": None,
        "topics": ",",
        "topic.creation.groups": "g,g",
        "config.providers": "x,x",
    },
    "source: more errors": {
        **_SOURCE,
        "tasks.max": "0",
        "transforms": None,
        "key.converter": "",
        "header.converter": None,
        "offset-syncs.topic.location": "nowhere",
        "security.protocol": "PLAIN",
        "emit.offset-syncs.enabled": "",
        "sasl.jaas.config": "secret",
        "metric.names.formats": "x",
        "transforms.z.type": "RegexRouter",
    },
    "source: types": {
        **_SOURCE,
        "tasks.max": " 4 ",
        "enabled": "yes",
        "sync.topic.acls.enabled": "maybe",
        "refresh.topics.interval.seconds": "1.5",
        "errors.retry.timeout": "x",
        "tasks.max.enforce": "no",
    },
    "source: nulls": {**_SOURCE, "topics": None, "whatever": None},
    "source: transformations": {
        **_SOURCE,
        "transforms": "a,c,d",
        "transforms.a.type": f"{_KAFKA}transforms.InsertField$Value",
        "transforms.a.topic.field": "t",
        "transforms.c.type": "NoSuch",
        "transforms.d.type": "RegexRouter",
        "transforms.d.regex": "x",
        "transforms.d.replacement": "y",
        "transforms.d.negate": "true",
        "predicates": "p,q",
        "predicates.p.type": f"{_KAFKA}transforms.predicates.TopicNameMatches",
        "predicates.p.pattern": "x.*",
        "predicates.q.type": "Nope",
    },
    "source: transformations without type": {**_SOURCE, "transforms": "a", "predicates": "p"},
    "source: transformations' own keys": {
        **_SOURCE,
        "transforms": "b,c",
        "transforms.b.type": f"{_KAFKA}transforms.MaskField$Value",
        "transforms.b.fields": "",
        "transforms.c.type": f"{_KAFKA}transforms.InsertField",
        "predicates": "p",
        "predicates.p.type": f"{_KAFKA}transforms.predicates.HasHeaderKey",
        "predicates.p.name": "",
    },
    "source: transformations of other kinds": {
        **_SOURCE,
        "transforms": "a,b",
        "transforms.a.type": f"{_KAFKA}json.JsonConverter",
        "transforms.b.type": "",
        "predicates": "p",
        "predicates.p.type": f"{_KAFKA}transforms.Filter",
    },
    "source: converters": {
        **_SOURCE,
        "key.converter": f"{_KAFKA}json.JsonConverter",
        "key.converter.schemas.enable": "maybe",
        "value.converter": f"{_KAFKA}converters.LongConverter",
        "header.converter": "SimpleHeaderConverter",
    },
    "source: converters of other kinds": {
        **_SOURCE,
        "key.converter": f"{_KAFKA}transforms.Filter",
        "header.converter": "NoSuch",
    },
    "source: converter's version": {
        **_SOURCE,
        "key.converter": f"{_KAFKA}json.JsonConverter",
        "key.converter.plugin.version": "9.9",
    },
    "source: version": {**_SOURCE, "connector.plugin.version": "9.9"},
    "source: right version": {**_SOURCE, "connector.plugin.version": "[4,5)"},
    "source: overrides": {
        **_SOURCE,
        "producer.override.acks": "7",
        "producer.override.unknown": "x",
        "producer.override.linger.ms": "5",
        "producer.override.sasl.jaas.config": "secret",
        "admin.override.request.timeout.ms": "1000",
        "consumer.override.max.poll.records": "5",
    },
    "source: new topics": {
        **_SOURCE,
        "topic.creation.groups": "g,default",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "0",
        "admin.override.request.timeout.ms": "1000",
    },
    "source: exactly once": {**_SOURCE, "exactly.once.support": "required"},
    "source: exactly once, committed": {
        **_SOURCE,
        "exactly.once.support": "required",
        "consumer.isolation.level": "read_committed",
    },
    "heartbeat: errors": {
        **_HEARTBEAT,
        "emit.heartbeats.interval.seconds": "x",
        "emit.heartbeats.enabled": "no",
        "tasks.max": "-1",
    },
}


def _validate(port: int, config: dict[str, str | None]) -> tuple[int, Any]:
    plugin = str(config["connector.class"]).rpartition(".")[2]
    request = urllib.request.Request(
        f"http://{LOOPBACK}:{port}/connector-plugins/{plugin}/config/validate",
        method="PUT",
        data=json.dumps(config).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def _without_texts(answer: Any) -> Any:
    for info in answer.get("configs", ()):
        if info["definition"] is not None:
            del info["definition"]["documentation"]
    return answer


def _answers(port: int) -> dict[str, Any]:
    captured: dict[str, Any] = {}
    for name, config in CASES.items():
        status, answer = _validate(port, config)
        captured[name] = {"config": config, "status": status, "answer": _without_texts(answer)}
    good = {name: captured[name]["answer"]["configs"] for name in GOOD.values()}
    for name, case in captured.items():
        base = good[name.partition(":")[0]]
        if ":" in name and case["status"] == 200:
            case["answer"]["configs"] = [
                info for info in case["answer"]["configs"] if info not in base
            ]
    return captured


def _ready(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://{LOOPBACK}:{port}/", timeout=5).close()
    except OSError:
        return False
    return True


def capture(kafka: KafkaRuntime) -> dict[Path, str]:
    """The file and its text."""
    lease = PortLease(cache_directory() / "ports")
    with (
        contextlib.closing(lease),
        tempfile.TemporaryDirectory() as name,
        KafkaCluster(name="validation", kafka=kafka) as cluster,
    ):
        properties = Path(name) / "worker.properties"
        properties.write_text(
            f"bootstrap.servers={cluster.bootstrap_servers}\n"
            f"key.converter={_KAFKA}converters.ByteArrayConverter\n"
            f"value.converter={_KAFKA}converters.ByteArrayConverter\n"
            f"offset.storage.file.filename={name}/offsets\n"
            f"listeners=http://{LOOPBACK}:{lease.port}\n"
        )
        standalone = "org.apache.kafka.connect.cli.ConnectStandalone"
        log = Path(name) / "connect.log"
        with java_process(kafka, standalone, [str(properties)], log):
            wait_until(lambda: _ready(lease.port), 120, "the worker's REST API")
            return {ANSWERS: json.dumps(_answers(lease.port), indent=1) + "\n"}
