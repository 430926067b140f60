"""A distributed worker whose brokers go away, whose config topic is gone, or who finds task configs
that are not to be run. On real brokers, as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.producing import Record, produce
from tests.support.records.topics import admin, create_topic, end_offset, unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.distributed import GroupWorker, file_source, worker_group
from tests.support.workers.java_connect import worker_properties

WAIT_S = 90.0
SHORT = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "offset.flush.interval.ms": "500",
}


@pytest.fixture
def mortal(kafka: KafkaRuntime, logs: Path) -> Iterator[KafkaCluster]:
    properties = {"auto.create.topics.enable": "false"}
    with KafkaCluster(name="mortal", properties=properties, kafka=kafka, logs=logs) as cluster:
        yield cluster


def lines_source(cluster: KafkaCluster, file: Path, *lines: str) -> dict[str, str]:
    """A connector whose topic exists."""
    file.write_text("".join(f"{line}\n" for line in lines))
    return file_source(create_topic(cluster.bootstrap_servers, "lines"), file)


def health(worker: GroupWorker) -> tuple[int, str]:
    answer = call(worker.url, "GET", "/health")
    return answer.status, answer.json()["message"]


def until_health(worker: GroupWorker, status: int, word: str) -> None:
    def shown() -> bool:
        found = health(worker)
        return found[0] == status and word in found[1]

    wait_until(shown, WAIT_S, f"health {status} of worker {worker.number} with {word}")


@pytest.mark.slow
def test_work_goes_on_after_all_brokers_were_away(
    mortal: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """Meanwhile the workers' health is bad, and requests that write are refused with the reason."""
    file = tmp_path / "lines.txt"
    config = lines_source(mortal, file, "one")
    properties = worker_properties(mortal.bootstrap_servers, unique("group"), SHORT)
    with worker_group(2, properties, tmp_path, logs) as group:
        group.create("lines", config)
        group.until_running("lines", tasks=1)
        group.until(lambda: end_offset(mortal.bootstrap_servers, config["topic"]) == 1, "one")
        mortal.node(1).stop()
        for worker in group.workers:
            until_health(worker, 500, "joining its group")
        refused = group.call("PUT", "/connectors/lines/config", {**config, "batch.size": "7"})
        assert refused.status in (409, 500, 503), refused.body
        with file.open("a") as more:
            more.write("two\n")
        mortal.node(1).start()
        for worker in group.workers:
            until_health(worker, 200, "ready to handle requests")
        group.until_running("lines", tasks=1, timeout_s=WAIT_S)
        wait_until(
            lambda: end_offset(mortal.bootstrap_servers, config["topic"]) == 2, WAIT_S, "two"
        )


@pytest.mark.slow
def test_a_write_to_a_config_topic_that_is_gone_times_out_and_names_it(
    mortal: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    config = lines_source(mortal, tmp_path / "lines.txt", "one")
    properties = worker_properties(mortal.bootstrap_servers, unique("group"), SHORT)
    with worker_group(1, properties, tmp_path, logs) as group:
        group.create("lines", config)
        group.until_running("lines", tasks=1)
        topic = properties["config.storage.topic"]
        admin(mortal.bootstrap_servers).delete_topics([topic])[topic].result(30)
        answer = group.call("PUT", "/connectors/lines/config", {**config, "batch.size": "7"})
        assert answer.error == (
            500,
            "Error writing connector configuration to Kafka: The brokers did not acknowledge the "
            f"write to topic {topic} in time",
        )


def stored_tasks(topic: str, name: str, configs: list[dict[str, str]]) -> list[Record]:
    """What a leader writes about a connector's tasks."""
    rows: list[tuple[str, Any]] = [
        (f"task-{name}-{number}", {"properties": config}) for number, config in enumerate(configs)
    ]
    rows.append((f"commit-{name}", {"tasks": len(configs)}))
    return [Record(json.dumps(value).encode(), key.encode()) for key, value in rows]


def test_stored_tasks_that_are_too_many_fail_until_they_are_allowed(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """They may have been written before there was a limit, or by hand (KIP-1004)."""
    config = {**lines_source(target_cluster, tmp_path / "lines.txt", "one"), "tasks.max": "1"}
    servers = target_cluster.bootstrap_servers
    properties = worker_properties(servers, unique("group"), SHORT)
    with worker_group(1, properties, tmp_path, logs) as group:
        group.create("lines", config)
        group.until_running("lines", tasks=1)
        (task,) = group.call("GET", "/connectors/lines/tasks").json()
        group.workers[0].stop()
        topic = properties["config.storage.topic"]
        produce(servers, topic, stored_tasks(topic, "lines", [task["config"]] * 2))
        group.workers[0].start().await_ready()

        def failed() -> bool:
            tasks = (group.status("lines") or {}).get("tasks", [])
            return any(each["state"] == "FAILED" and "tasks.max" in each["trace"] for each in tasks)

        group.until(failed, "a task that fails because there are too many")


def test_a_connector_can_be_changed_though_its_tasks_cannot_be_read_any_more(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """A provider's file is deleted; the config that replaces it does without."""
    servers, secrets = target_cluster.bootstrap_servers, tmp_path / "secrets.properties"
    secrets.write_text("size=10\n")
    config = lines_source(target_cluster, tmp_path / "lines.txt", "one")
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    properties = worker_properties(
        servers,
        unique("group"),
        {**SHORT, "config.providers": "file", "config.providers.file.class": provider},
    )
    with worker_group(1, properties, tmp_path, logs) as group:
        group.create("lines", {**config, "batch.size": f"${{file:{secrets}:size}}"})
        group.until_running("lines", tasks=1)
        secrets.unlink()
        later = create_topic(servers, "later")
        changed = {**config, "topic": later, "file": str(tmp_path / "more.txt")}
        (tmp_path / "more.txt").write_text("two\n")
        group.accepted("PUT", "/connectors/lines/config", {**changed, "batch.size": "10"})
        group.until(lambda: end_offset(servers, later) == 1, "a record of the new config")
        group.until_running("lines", tasks=1)
