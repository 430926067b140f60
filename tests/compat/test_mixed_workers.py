"""A worker of Java's and one of ours in one group: one Connect cluster, whoever leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import ReadRecord, read_partition
from tests.support.records.topics import create_topic, end_offset, unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.mixed_group import (
    MixedGroup,
    heartbeat_config,
    mirror_config,
)

BOTH = ("ours", "java")
TASKS = 4
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


@pytest.fixture(scope="module")
def mixed(
    kafka: KafkaRuntime,
    target_cluster: KafkaCluster,
    session_logs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MixedGroup]:
    """One worker of each, shared by the tests here."""
    logs = session_logs / "mixed-workers"
    logs.mkdir(exist_ok=True)
    with MixedGroup(
        kafka, target_cluster.bootstrap_servers, tmp_path_factory.mktemp("mixed"), logs
    ) as group:
        group.start("ours")
        group.start("java")
        yield group


@pytest.fixture(scope="module", params=BOTH)
def leader(request: pytest.FixtureRequest, mixed: MixedGroup) -> str:
    """Who leads the group; first ours, as Java's worker starts slowly."""
    mixed.lead(request.param)
    return str(request.param)


@pytest.fixture
def group(leader: str, mixed: MixedGroup) -> Iterator[MixedGroup]:
    """`mixed`, with each of them leading, without connectors."""
    yield mixed
    mixed.clear()


def test_connectors_are_created_changed_and_deleted_through_either(
    group: MixedGroup, leader: str
) -> None:
    for creator, other in (BOTH, BOTH[::-1]):
        name = unique("hb")
        config = heartbeat_config(group.servers, unique("heartbeats"))
        created = group.accepted(creator, "POST", "/connectors", {"name": name, "config": config})
        assert created.status == 201
        assert created.headers["location"] == f"{group.url(creator)}/connectors/{name}"
        assert list(created.json()) == ["name", "config", "tasks", "type"]
        group.until_running(name, 1)
        follower = next(side for side in BOTH if side != leader)
        unforwarded = call(
            group.url(follower), "PUT", f"/connectors/{name}/config?forward=false", config
        )
        assert unforwarded.error == (409, CONFLICT)
        again = call(group.url(other), "POST", "/connectors", {"name": name, "config": config})
        assert again.error == (409, f"Connector {name} already exists")

        changed = {**config, "emit.heartbeats.interval.seconds": "2"}
        put = group.accepted(other, "PUT", f"/connectors/{name}/config", changed)
        assert (put.status, put.json()["config"]) == (200, {**changed, "name": name})
        patch = {"emit.heartbeats.interval.seconds": "1", "tasks.max": 1, "x": None}
        patched = group.accepted(creator, "PATCH", f"/connectors/{name}/config", patch)
        assert patched.json()["config"] == {**config, "name": name}
        for side in BOTH:
            group.until(side, f"/connectors/{name}/config", partial(eq, {**config, "name": name}))
        group.until_running(name, 1)
        assert group.accepted(other, "DELETE", f"/connectors/{name}").status == 204
        for side in BOTH:
            group.until(side, "/connectors", partial(lacks, name))
            group.until_status(side, name, None)


def test_task_configs_of_one_are_run_by_the_other(group: MixedGroup) -> None:
    topics = {}
    # Two connectors: each worker has one of them, and half of the tasks of both.
    for _ in range(2):
        topic = create_topic(group.servers, partitions=TASKS)
        for partition in range(TASKS):
            produce(group.servers, topic, numbered(5, partition=partition))
        name = unique("mirror")
        topics[name] = topic
        group.create(name, mirror_config(group.servers, topic, TASKS))
    for name in topics:
        group.until_running(name, TASKS)

    def shared() -> bool:
        statuses = [group.status("ours", name) for name in topics]
        tasks = [task["worker_id"] for status in statuses for task in status["tasks"]]
        halves = [tasks.count(worker) for worker in group.worker_ids] == [TASKS, TASKS]
        return halves and {each["connector"]["worker_id"] for each in statuses} == group.worker_ids

    wait_until(shared, 60.0, "a connector, and half of the tasks, on each worker")
    for name in topics:
        group.until_running(name, TASKS)
    for name, topic in topics.items():
        assert group.get("ours", f"/connectors/{name}/tasks") == group.get(
            "java", f"/connectors/{name}/tasks"
        )
        for partition in range(TASKS):
            records = copied(group.servers, topic, partition, 5)
            assert [record.key for record in records] == [b"k%d" % n for n in range(5)]


def test_targets_restarts_and_offsets_through_either(group: MixedGroup) -> None:
    topic = create_topic(group.servers, partitions=TASKS)
    produce(group.servers, topic, numbered(5))
    name = unique("mirror")
    path = f"/connectors/{name}"
    group.create(name, mirror_config(group.servers, topic, TASKS))
    group.until_running(name, TASKS)
    for one, other in (BOTH, BOTH[::-1]):
        assert group.accepted(one, "PUT", f"{path}/pause").status == 202
        group.until_status(other, name, "PAUSED", TASKS)
        assert group.accepted(other, "PUT", f"{path}/resume").status == 202
        group.until_status(one, name, "RUNNING", TASKS)

        restarted = group.accepted(one, "POST", f"{path}/restart?includeTasks=true")
        assert restarted.status == 202
        assert restarted.json()["connector"]["state"] == "RESTARTING"
        assert {task["state"] for task in restarted.json()["tasks"]} == {"RESTARTING"}
        group.until_status(other, name, "RUNNING", TASKS)
        assert group.accepted(one, "POST", f"{path}/restart").status == 204
        for task in range(TASKS):
            assert group.accepted(one, "POST", f"{path}/tasks/{task}/restart").status == 204
        group.until_status(other, name, "RUNNING", TASKS)

        # A stop commits what has been copied by then, which may be less.
        stored = group.until(other, f"{path}/offsets", is_copied)
        refused = call(group.url(one), "DELETE", f"{path}/offsets")
        assert refused.status == 400
        assert group.accepted(one, "PUT", f"{path}/stop").status == 204
        group.until_status(other, name, "STOPPED", 0)
        group.until(one, f"{path}/offsets", partial(eq, stored))
        (entry,) = stored["offsets"]
        altered = {"offsets": [{**entry, "offset": {"offset": 2}}]}
        answer = group.accepted(other, "PATCH", f"{path}/offsets", altered)
        assert "altered successfully" in answer.json()["message"]
        group.until(one, f"{path}/offsets", partial(includes, altered["offsets"][0]))
        assert group.accepted(one, "DELETE", f"{path}/offsets").status == 200
        group.until(other, f"{path}/offsets", partial(eq, {"offsets": []}))
        assert group.accepted(other, "PUT", f"{path}/resume").status == 202
        group.until_running(name, TASKS)


def test_the_level_of_a_logger_is_set_on_both(group: MixedGroup) -> None:
    for side, level in zip(BOTH, ("DEBUG", "WARN"), strict=True):
        logger = unique("compat.logger")
        put = call(
            group.url(side), "PUT", f"/admin/loggers/{logger}?scope=cluster", {"level": level}
        )
        assert put.status == 204
        for other in BOTH:
            group.until(other, f"/admin/loggers/{logger}", partial(has_level, level))


def test_a_killed_worker_of_ours_loses_its_work_to_java_and_gets_some_back(
    mixed: MixedGroup,
) -> None:
    name = unique("mirror")
    topic = create_topic(mixed.servers, partitions=TASKS)
    mixed.create(name, mirror_config(mixed.servers, topic, TASKS))
    mixed.until_running(name, TASKS)
    mixed.kill("ours")
    mixed.until_running(name, TASKS)
    assert {task["worker_id"] for task in mixed.status("java", name)["tasks"]} == {
        mixed.worker_id("java")
    }
    mixed.start("ours")
    mixed.until_shared(name, TASKS)
    mixed.clear()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["sessioned", "compatible", "eager"])
def test_a_team_moves_from_java_to_ours_one_worker_at_a_time(
    kafka: KafkaRuntime,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    protocol: str,
) -> None:
    servers = target_cluster.bootstrap_servers
    topic = create_topic(servers, partitions=TASKS)
    name, stopped, paused = unique("mirror"), unique("stopped"), unique("paused")
    with ExitStack() as stack:
        group = stack.enter_context(
            MixedGroup(kafka, servers, tmp_path, logs, {"connect.protocol": protocol})
        )
        group.start("java")
        group.create(name, mirror_config(servers, topic, TASKS))
        group.until_running(name, TASKS)
        group.create(stopped, heartbeat_config(servers, unique("hb")), "STOPPED")
        group.create(paused, heartbeat_config(servers, unique("hb")), "PAUSED")
        produced = 0

        def check_copied() -> None:
            nonlocal produced
            for partition in range(TASKS):
                produce(servers, topic, numbered(5, start=produced, partition=partition))
            produced += 5
            for partition in range(TASKS):
                records = copied(servers, topic, partition, produced)
                assert [record.key for record in records] == [b"k%d" % n for n in range(produced)]

        check_copied()
        offsets = group.until("java", f"/connectors/{name}/offsets", committed(4))
        group.start("ours")
        group.until_shared(name, TASKS)
        check_copied()
        group.stop("java")
        group.until_running(name, TASKS)
        check_copied()
        assert sorted(group.get("ours", "/connectors")) == sorted([name, stopped, paused])
        assert group.status("ours", stopped)["connector"]["state"] == "STOPPED"
        group.until_status("ours", paused, "PAUSED", None)
        later = group.until("ours", f"/connectors/{name}/offsets", committed(produced - 1))
        assert len(later["offsets"]) == len(offsets["offsets"])
        # And back again, after the sudden death of ours.
        group.start("java")
        group.until_shared(name, TASKS)
        group.kill("ours")
        group.until_running(name, TASKS)
        produced_before = produced
        for partition in range(TASKS):
            produce(servers, topic, numbered(1, start=produced, partition=partition))
        group.until("java", f"/connectors/{name}/offsets", committed(produced_before))


def has_level(level: str, found: Any) -> bool:
    return bool(found["level"] == level)


def lacks(name: str, found: Any) -> bool:
    return name not in found


def is_copied(found: Any) -> bool:
    """Whether the last of five records is committed as copied."""
    return [each["offset"] for each in found["offsets"]] == [{"offset": 4}]


def includes(entry: Any, found: Any) -> bool:
    return entry in found["offsets"]


def copied(servers: str, topic: str, partition: int, count: int) -> list[ReadRecord]:
    """The copy of a partition, once it has so many records."""
    wait_until(
        lambda: end_offset(servers, f"here.{topic}", partition) >= count, 60.0, "copied records"
    )
    return read_partition(servers, f"here.{topic}", partition)


def committed(offset: int) -> Any:
    """Whether all partitions have got so far."""

    def check(found: Mapping[str, Any]) -> bool:
        stored = [entry["offset"]["offset"] for entry in found["offsets"]]
        return len(stored) >= TASKS and min(stored) >= offset

    return check
