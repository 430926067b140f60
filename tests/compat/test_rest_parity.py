"""Java's workers and ours are asked the same, call by call, and answer the same."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from connect.clock import Deadline
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.compat.rest_calls import Call, Compare, calls
from tests.support.records.topics import unique
from tests.support.rest import Answer, call
from tests.support.waiting import wait_until
from tests.support.workers import java_connect
from tests.support.workers.distributed import worker_group
from tests.support.workers.java_standalone import java_standalone, worker_properties
from tests.support.workers.workers import standalone_worker

_SETTLE_S = 60.0
_NAME = "hb"
_CREATED = "n2"
# Not Content-Type and Allow: Java's router leaves them out with its failures.
_HEADERS = ("location", "vary", "access-control-allow-origin")
_TRANSITIONAL = ("RESTARTING", "UNASSIGNED")
# What a distributed worker of Java's answers while its group is about to rebalance.
_PASSING = (b"momentarily", b"rebalance")


def heartbeat_config(servers: str, topic: str) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "tasks.max": "1",
        "heartbeats.topic.replication.factor": "1",
        "emit.heartbeats.interval.seconds": "1",
        "heartbeats.topic": topic,
    }


def has_offsets(url: str) -> bool:
    return bool(call(url, "GET", f"/connectors/{_NAME}/offsets").json()["offsets"])


def states(url: str) -> list[str]:
    """Of all connectors and tasks."""
    found = call(url, "GET", "/connectors?expand=status").json().values()
    parts = [
        part for one in found for part in (one["status"]["connector"], *one["status"]["tasks"])
    ]
    return [part["state"] for part in parts]


def settle(url: str) -> None:
    """Wait until no state changes any more."""
    seen: list[list[str]] = []

    def settled() -> bool:
        seen.append(states(url))
        return (
            len(seen) > 4
            and all(one == other for one, other in pairwise(seen[-4:]))
            and not set(seen[-1]) & set(_TRANSITIONAL)
        )

    wait_until(settled, _SETTLE_S, "states that stay")


def comparable(url: str, asked: Call, answer: Answer) -> object:
    """What has to be the same of an answer; where the worker is, and its versions, left out."""
    if asked.compare is Compare.SHAPE:
        shape = "error" if answer.body.startswith(b'{"error_code"') else "other"
        return answer.status, shape if answer.status != 400 else "any"
    text = answer.body.decode()
    text = text.replace(url.removeprefix("http://"), "WORKER")
    text = re.sub(r"(?<=Connector config )\{([^}]*)\}", same_order, text)
    text = re.sub(r'"version":("[^"]*"|null)', '"version":"V"', text)
    headers = {
        name: answer.headers[name].replace(url, "WORKER")
        for name in _HEADERS
        if name in answer.headers
    }
    if not text:
        return answer.status, headers
    body = json.loads(text)
    if asked.compare is Compare.FIELDS:
        return answer.status, fields(body)
    if asked.path.startswith(f"/connectors/{_CREATED}") and "config" in body and "tasks" in body:
        # Our heartbeat connector has tasks once its topic is there, Java's from the start.
        del body["tasks"]
    # A config alone has any order, as Java's after a PATCH.
    return answer.status, headers, body, None if asked.path.endswith("/config") else order(body)


def same_order(found: re.Match[str]) -> str:
    """Java prints maps in the order of their hashes."""
    return "{" + ", ".join(sorted(found[1].split(", "))) + "}"


def fields(body: Any) -> object:
    """Names of fields in their order, of the first element of each list; configs have any order."""
    if isinstance(body, dict):
        return [(name, None if name == "config" else fields(value)) for name, value in body.items()]
    return [fields(body[0])] if isinstance(body, list) and body else None


def order(body: Any) -> object:
    """Names of the fields of answers in their order; configs may be in any."""
    if not isinstance(body, dict):
        return None
    return [(name, order(value) if name != "config" else None) for name, value in body.items()]


def ask(url: str, asked: Call) -> Answer:
    """The answer; asked again while the group takes over a change, which takes each worker its own
    time."""
    deadline = Deadline(_SETTLE_S)
    while True:
        answer = call(url, asked.method, asked.path, asked.body, asked.headers)
        passing = answer.status in (409, 500) and any(text in answer.body for text in _PASSING)
        if not passing or deadline.expired():
            return answer


def answers(java: str, ours: str, asked: Call) -> list[object]:
    found = []
    for url in (java, ours):
        if asked.settle:
            settle(url)
        found.append(comparable(url, asked, ask(url, asked)))
    return found


def differences(java: str, ours: str, servers: str) -> list[str]:
    """Of the answers to all calls."""
    config = heartbeat_config(servers, unique("heartbeats"))
    for url in (java, ours):
        put = call(url, "PUT", f"/connectors/{_NAME}/config", config)
        assert put.status == 201, put.body
    wait_until(lambda: has_offsets(java) and has_offsets(ours), _SETTLE_S, "stored offsets")
    different = []
    for asked in calls(_NAME, config):
        found = answers(java, ours, asked)
        deadline = Deadline(_SETTLE_S)
        while asked.settle and found[0] != found[1] and not deadline.expired():
            # A group settles when several rebalances are over, each worker's at its own time.
            found = answers(java, ours, asked)
        if found[0] != found[1]:
            different.append(f"{asked}\n  Java: {found[0]}\n  ours: {found[1]}")
    return different


def test_standalone_workers_give_the_same_answers(
    kafka: KafkaRuntime, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    servers = target_cluster.bootstrap_servers
    ours_dir, java_dir = tmp_path / "ours", tmp_path / "java"
    ours_dir.mkdir()
    java_dir.mkdir()
    with (
        java_standalone(
            kafka, worker_properties(servers, java_dir), java_dir, logs / "java.log"
        ) as java,
        standalone_worker(
            worker_properties(servers, ours_dir), ours_dir, logs / "ours.log"
        ) as ours,
    ):
        different = differences(java, ours, servers)
    assert not different, f"{len(different)} answers differ:\n" + "\n".join(different)


def test_distributed_workers_give_the_same_answers(
    kafka: KafkaRuntime, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """Each alone in its group."""
    servers = target_cluster.bootstrap_servers
    ours_props, java_props = (
        java_connect.worker_properties(
            servers, unique("parity"), {"offset.flush.interval.ms": "500"}
        )
        for _ in range(2)
    )
    with (
        java_connect.java_worker(kafka, java_props, tmp_path, logs / "java.log") as java,
        worker_group(1, ours_props, tmp_path, logs) as ours,
    ):
        different = differences(java.url, ours.first.url, servers)
    assert not different, f"{len(different)} answers differ:\n" + "\n".join(different)
