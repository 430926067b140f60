"""`connect-distributed` as a user runs it: several workers of one group."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from deploy.brokers import KafkaCluster
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, file_source, worker_group
from tests.support.workers.java_connect import worker_properties

T = TypeVar("T")
_WAIT_S = 60.0


@pytest.fixture(scope="module")
def group(
    target_cluster: KafkaCluster,
    session_logs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Group]:
    """Two workers, shared by the tests that harm none."""
    logs = session_logs / "distributed-group"
    logs.mkdir(exist_ok=True)
    properties = {
        **worker_properties(target_cluster.bootstrap_servers, unique("group")),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
    }
    with worker_group(2, properties, tmp_path_factory.mktemp("group"), logs) as found:
        yield found


def source(tmp_path: Path, cluster: KafkaCluster) -> dict[str, str]:
    """A connector whose file has two lines and whose topic exists."""
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    return file_source(create_topic(cluster.bootstrap_servers, "lines"), lines)


def each(group: Group) -> list[str]:
    return [worker.url for worker in group.workers if worker.running]


def soon(condition: Callable[..., T], *arguments: object) -> T:
    """The condition's answer, once it is true."""
    return wait_until(partial(condition, *arguments), _WAIT_S, f"{condition.__name__}{arguments}")


def answer_of(url: str, path: str) -> Any:
    return call(url, "GET", path).json()


def is_taken(url: str, path: str, body: object) -> bool:
    return call(url, "PATCH", path, body).status == 200


def has_level(url: str, logger: str, level: str) -> bool:
    return bool(answer_of(url, f"/admin/loggers/{logger}")["level"] == level)


def has_no_status(group: Group, name: str) -> bool:
    return group.status(name) is None


def test_a_connector_may_be_created_and_changed_at_any_worker(
    group: Group, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    config = source(tmp_path, target_cluster)
    for number, url in enumerate(each(group)):
        name = unique("lines")
        body = {"name": name, "config": config}
        answer = call(url, "POST", "/connectors", body)
        assert (answer.status, answer.json()["tasks"]) == (201, []), number
        assert answer.headers["location"] == f"{url}/connectors/{name}"
        status = group.until_running(name, tasks=1)
        assert status["type"] == "source"
        changed = call(url, "PUT", f"/connectors/{name}/config", {**config, "batch.size": "7"})
        assert changed.status == 200
        patched = call(url, "PATCH", f"/connectors/{name}/config", {"batch.size": None})
        assert "batch.size" not in patched.json()["config"]
        group.until_running(name, tasks=1)
        for other in each(group):
            assert call(other, "GET", f"/connectors/{name}").json()["config"]["file"]
            info = soon(answer_of, other, f"/connectors/{name}/tasks")
            assert info[0]["config"]["task.class"].endswith("FileStreamSourceTask")
        assert call(url, "POST", "/connectors", body).error == (
            409,
            f"Connector {name} already exists",
        )
        assert call(url, "DELETE", f"/connectors/{name}").status == 204
        soon(has_no_status, group, name)
        assert call(url, "GET", f"/connectors/{name}").error == (404, f"Connector {name} not found")


def test_pause_stop_and_resume_are_seen_by_all_workers(
    group: Group, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    name = unique("lines")
    group.create(name, source(tmp_path, target_cluster))
    group.until_running(name, tasks=1)

    def shows(expected: tuple[str, list[str]]) -> bool:
        status = group.status(name)
        return expected == (
            status["connector"]["state"],
            [task["state"] for task in status["tasks"]],
        )

    for verb, expected in (
        ("stop", ("STOPPED", [])),
        ("resume", ("RUNNING", ["RUNNING"])),
        ("pause", ("PAUSED", ["PAUSED"])),
        ("stop", ("STOPPED", [])),
        ("pause", ("PAUSED", [])),
        ("resume", ("RUNNING", ["RUNNING"])),
    ):
        answer = group.accepted("PUT", f"/connectors/{name}/{verb}")
        assert answer.status == (204 if verb == "stop" else 202)
        soon(shows, expected)
    group.accepted("DELETE", f"/connectors/{name}")


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED"])
def test_a_connector_that_is_created_stopped_starts_when_it_is_resumed(
    group: Group, target_cluster: KafkaCluster, tmp_path: Path, state: str
) -> None:
    name = unique("lines")
    group.create(name, source(tmp_path, target_cluster), state)

    def connector() -> dict[str, Any]:
        return dict((group.status(name) or {}).get("connector", {}))

    group.until(lambda: connector().get("state") == state, state)
    assert connector()["version"], "clients break on null"
    group.accepted("PUT", f"/connectors/{name}/resume")
    group.until_running(name, tasks=1)
    group.accepted("DELETE", f"/connectors/{name}")


def test_offsets_can_be_read_changed_and_reset_at_any_worker(
    group: Group, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    name = unique("lines")
    config = source(tmp_path, target_cluster)
    group.create(name, config)
    path = f"/connectors/{name}/offsets"

    def offsets() -> Any:
        return group.accepted("GET", path).json()["offsets"]

    stored = group.until(offsets, "a stored offset")
    assert stored == [{"partition": {"filename": config["file"]}, "offset": {"position": 8}}]
    refused = [call(url, "DELETE", path) for url in each(group)]
    assert [answer.status for answer in refused] == [400, 400]
    group.accepted("PUT", f"/connectors/{name}/stop")
    for url in each(group):
        altered = [{**stored[0], "offset": {"position": 4}}]
        soon(is_taken, url, path, {"offsets": altered})
        assert offsets() == altered
        assert call(url, "DELETE", path).status == 200
        assert offsets() == []
    group.accepted("DELETE", f"/connectors/{name}")


def test_offsets_of_a_sink_can_be_changed_at_any_worker(
    group: Group, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    servers, name = target_cluster.bootstrap_servers, unique("sink")
    topic, file = create_topic(servers, "lines"), tmp_path / "out.txt"
    produce(servers, topic, numbered(3))
    sink = {"connector.class": "FileStreamSink", "file": str(file), "topics": topic}
    group.create(name, sink)
    path = f"/connectors/{name}/offsets"
    where = {"kafka_topic": topic, "kafka_partition": 0}

    def committed(offset: int) -> bool:
        found = group.accepted("GET", path).json()["offsets"]
        return bool(found == [{"partition": where, "offset": {"kafka_offset": offset}}])

    soon(committed, 3)
    for lines, url in zip((5, 7), each(group), strict=True):
        group.accepted("PUT", f"/connectors/{name}/stop")
        body = {"offsets": [{"partition": where, "offset": {"kafka_offset": 1}}]}
        soon(is_taken, url, path, body)
        assert committed(1)
        wrong = {"offsets": [{"partition": where, "offset": {"kafka_offset": "x"}}]}
        assert "need to be integers" in call(url, "PATCH", path, wrong).error[1]
        group.accepted("PUT", f"/connectors/{name}/resume")
        soon(committed, 3)
        assert len(file.read_text().splitlines()) == lines
    group.accepted("DELETE", f"/connectors/{name}")


def test_restarts_reach_the_worker_that_runs_it(
    group: Group, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    name = unique("lines")
    group.create(name, source(tmp_path, target_cluster))
    group.until_running(name, tasks=1)
    for url in each(group):
        assert call(url, "POST", f"/connectors/{name}/restart").status == 204
        assert call(url, "POST", f"/connectors/{name}/tasks/0/restart").status == 204
        plan = call(url, "POST", f"/connectors/{name}/restart?includeTasks=true")
        assert plan.status == 202
        assert plan.json()["connector"]["state"] == "RESTARTING"
        group.until_running(name, tasks=1)
        unknown = call(url, "POST", f"/connectors/{name}/tasks/3/restart")
        assert unknown.error == (404, f"Unknown task: {name}-3")
        assert call(url, "POST", "/connectors/none/restart").error == (
            404,
            "Unknown connector: none",
        )
    group.accepted("DELETE", f"/connectors/{name}")


def test_a_failed_task_shows_its_trace_and_harms_nothing_else(
    group: Group, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    good, bad = unique("good"), unique("bad")
    config = source(tmp_path, target_cluster)
    group.create(good, config)
    group.create(
        bad, {**config, "value.converter": "org.apache.kafka.connect.converters.LongConverter"}
    )

    def failure() -> Any:
        status = group.status(bad)
        tasks = [] if status is None else status["tasks"]
        return tasks and tasks[0]["state"] == "FAILED" and tasks[0]["trace"]

    assert "Error" in group.until(failure, "the failure")
    group.until_running(good, tasks=1)
    restarted = group.accepted(
        "POST", f"/connectors/{bad}/restart?includeTasks=true&onlyFailed=true"
    )
    assert [task["state"] for task in restarted.json()["tasks"]] == ["RESTARTING"]
    assert restarted.json()["connector"]["state"] == "RUNNING"
    for name in (good, bad):
        group.accepted("DELETE", f"/connectors/{name}")


def test_the_level_of_a_logger_changes_on_all_workers(group: Group) -> None:
    logger = "connect.runtime.distributed.herder_thread"
    answer = group.call("PUT", f"/admin/loggers/{logger}?scope=cluster", {"level": "debug"})
    assert answer.status == 204
    for url in each(group):
        soon(has_level, url, logger, "DEBUG")
    refused = group.call("PUT", f"/admin/loggers/{logger}?scope=cluster", {"level": "loud"})
    assert refused.error == (404, "invalid log level 'loud'.")


def test_unsigned_and_wrongly_signed_requests_between_workers_are_refused(group: Group) -> None:
    path, body = "/connectors/any/tasks", json.dumps([{"a": "b"}])
    headers = {"Content-Type": "application/json"}
    assert call(each(group)[0], "POST", path, body, headers).error == (
        400,
        "Internal request missing required signature",
    )
    signed = {
        **headers,
        "X-Connect-Authorization": "Eroe1tB3QaSe5EJ0n/U/3E2UQZRh4D5G73yb9AU1xkM=",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    assert call(each(group)[0], "POST", path, body, signed).error == (
        403,
        "Internal request contained invalid signature.",
    )
