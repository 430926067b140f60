"""Several mirror processes with one flow: they share its tasks, take over from each other, and
copy nothing twice that nobody made them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploy.brokers import GuardedProcess, KafkaCluster
from deploy.brokers.ports import LOOPBACK
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.flows.mirrors import mirror_maker
from tests.support.records.groups import commit
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import unique
from tests.support.served import health_of, page
from tests.support.waiting import wait_until

SOURCE, CHECKPOINT = "MirrorSourceConnector", "MirrorCheckpointConnector"
GROUP = {
    "groups": "flow-.*",
    "tasks.max": "4",
    "B.scheduled.rebalance.max.delay.ms": "500",
    "metrics.listener": f"http://{LOOPBACK}:0",
}
WITHOUT_REST: Mapping[str, str] = {}
WITH_REST = {
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": f"http://{LOOPBACK}:0",
}


class Member:
    """One process of the flow, and what it says."""

    def __init__(self, process: GuardedProcess, log: Path, *, rest: bool = False) -> None:
        self.process = process
        self._log = log
        self._listeners = 2 if rest else 1

    @property
    def text(self) -> str:
        return self._log.read_text()

    def page(self) -> str:
        """Where its health is; the internal REST listens before."""

        def found() -> str | None:
            urls: list[str] = re.findall(r"listening on (\S+)", self.text)
            return urls[self._listeners - 1] if len(urls) >= self._listeners else None

        page = wait_until(found, 60, "a page")
        assert page is not None
        return page

    def connectors(self) -> dict[str, dict[str, Any]]:
        health = health_of(self.page())
        return {connector["name"]: connector for connector in health["connectors"]}

    def lag(self, flow: MirroredFlow) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(
            page(self.page(), f"/mirrors/{flow.a}-%3E{flow.b}/lag")
        )
        return document

    def owners(self, connector: str = SOURCE) -> list[str]:
        """The workers of a connector's running tasks."""
        tasks = self.connectors().get(connector, {}).get("tasks", ())
        return [task["worker_id"] for task in tasks if task["state"] == "RUNNING"]

    def tells_of_two_workers(self) -> bool:
        found = self.connectors()
        return len({found[name]["worker_id"] for name in (SOURCE, CHECKPOINT)}) == 2

    def settled(self, tasks: int, workers: int) -> list[str]:
        """Waits until all tasks run, on so many workers."""

        def owners() -> list[str] | None:
            found = self.owners()
            return found if (len(found), len(set(found))) == (tasks, workers) else None

        found = wait_until(owners, 60, f"{tasks} tasks on {workers} workers")
        assert found is not None
        return found

    def stop(self) -> None:
        stop_cleanly(self.process, self._log)


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@contextmanager
def members(
    flow: MirroredFlow, rest: Mapping[str, str], tmp_path: Path, logs: Path, count: int = 2
) -> Iterator[list[Member]]:
    """Processes that were started one after the other, each when the one before it works."""
    props = flow.properties({**GROUP, **rest})
    with ExitStack() as stack:
        started = []
        for number in range(count):
            log = logs / f"mirror-{number}.log"
            process = stack.enter_context(running(props, tmp_path / str(number), log))
            started.append(Member(process, log, rest=bool(rest)))
            wait_until(lambda: started[-1].owners(), 60, "tasks of the first")
        yield started


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(WITHOUT_REST, id="alone"),
        pytest.param(WITH_REST, id="internal-rest", marks=pytest.mark.slow),
    ],
)
def test_two_processes_share_a_flow_and_copy_everything_once(
    flow: MirroredFlow, rest: Mapping[str, str], tmp_path: Path, logs: Path
) -> None:
    topic, group = flow.topic("t", partitions=4), unique(f"{flow.prefix}.g")
    for partition in range(4):
        produce(flow.source_servers, topic, numbered(100, partition=partition))
    with members(flow, rest, tmp_path, logs) as (first, second):
        owners = first.settled(tasks=4, workers=2)
        # The tasks of all connectors are dealt out together.
        assert len(set(owners)) == 2
        if not rest:
            told_of_its_own_tasks_only(first, flow, topic, owners)
        for partition in range(4):
            produce(flow.source_servers, topic, numbered(100, start=100, partition=partition))
        flow.wait_records(topic, [200] * 4)
        # What is found later is found by the leader and by the other one, which has to tell it.
        wait_until(second.tells_of_two_workers, 60, "a worker for each of both connectors")
        late = flow.topic("late")
        produce(flow.source_servers, late, numbered(10))
        commit(flow.source_servers, group, {(topic, 0): 7})
        flow.wait_records(late, [10])
        wait_until(lambda: first.owners(CHECKPOINT), 60, "a task for the group")
        assert "were not committed" not in first.text + second.text
        second.stop()
        first.settled(tasks=4, workers=1)
        produce(flow.source_servers, topic, numbered(50, start=200))
        flow.wait_records(topic, [250, 200, 200, 200])
        first.stop()
    for each in (topic, late):
        assert_equal_logs(flow, each)


def told_of_its_own_tasks_only(
    first: Member, flow: MirroredFlow, topic: str, owners: list[str]
) -> None:
    """Without internal REST, a process knows only the lag of what it copies."""

    def known() -> dict[str, Any] | None:
        found = first.lag(flow)
        tasks = [task for missing in found["incomplete"] for task in missing["tasks"]]
        settled = len(found["incomplete"]) == 1 and len(found["partitions"]) + len(tasks) == 4
        return found if settled and found["partitions"] else None

    found = wait_until(known, 30, "partitions of the first")
    assert found is not None
    (own,) = {each["worker_id"] for each in found["partitions"]}
    (missing,) = found["incomplete"]
    assert {own, missing["worker_id"]} == set(owners)
    assert {each["topic"] for each in found["partitions"]} == {topic}
    assert "dedicated.mode.enable.internal.rest=true" in missing["reason"]


def test_any_process_tells_the_lag_of_the_whole_flow(
    flow: MirroredFlow, tmp_path: Path, logs: Path
) -> None:
    topic = flow.topic("t", partitions=4)
    for partition in range(4):
        records = numbered(2000, partition=partition)
        produce(flow.source_servers, topic, records, batch_records=5)
    # Far fewer records than wait: the partitions stay behind. A killed worker is not missed soon.
    slow = {**WITH_REST, "A->B.mirror.rate.records": "20", "B.session.timeout.ms": "60000"}
    with members(flow, slow, tmp_path, logs) as (first, second):
        owners = first.settled(tasks=4, workers=2)

        def told(member: Member) -> list[dict[str, Any]] | None:
            found = member.lag(flow)
            partitions: list[dict[str, Any]] = found["partitions"]
            measured = [each["bytes"] for each in partitions if each["bytes"] is not None]
            return partitions if len(measured) == 4 and not found["incomplete"] else None

        for member in (first, second):
            partitions = wait_until(partial(told, member), 60, "the lag of four partitions")
            assert partitions is not None
            assert [each["partition"] for each in partitions] == [0, 1, 2, 3]
            assert {each["worker_id"] for each in partitions} == set(owners)
            assert all(0 < each["records"] <= 2000 for each in partitions)
        second.process.kill()
        found = first.lag(flow)
        (missing,) = found["incomplete"]
        (own,) = {each["worker_id"] for each in found["partitions"]}
        assert {own, missing["worker_id"]} == set(owners)
        assert missing["reason"].startswith(f"Worker {missing['worker_id']} cannot be asked: ")


def test_what_a_killed_process_did_is_done_by_the_other(
    flow: MirroredFlow, tmp_path: Path, logs: Path
) -> None:
    topic = flow.topic("t", partitions=4)
    with members(flow, {}, tmp_path, logs) as (first, second):
        first.settled(tasks=4, workers=2)
        for partition in range(4):
            produce(flow.source_servers, topic, numbered(300, partition=partition))
        first.process.kill()
        for partition in range(4):
            produce(flow.source_servers, topic, numbered(100, start=300, partition=partition))
        second.settled(tasks=4, workers=1)
        flow.wait_records(topic, [400] * 4)
        second.stop()
    for partition in range(4):
        before = contents(read_partition(flow.source_servers, topic, partition))
        after = contents(read_partition(flow.target_servers, flow.remote(topic), partition))
        # At most what the killed one had copied since it last stored its offsets comes again.
        again = len(after) - len(before)
        assert 0 <= again <= 300
        assert list(dict.fromkeys(after)) == before
        assert after[-len(before) :] == before or after[-100:] == before[-100:]


def test_several_processes_are_one_program(flow: MirroredFlow, tmp_path: Path, logs: Path) -> None:
    topic = flow.topic("t", partitions=4)
    produce(flow.source_servers, topic, numbered(100))
    log = logs / "mirror.log"
    props = flow.properties(GROUP)
    with mirror_maker(props, tmp_path, log, "--workers", "2") as program:
        mirror = Member(program, log)
        flow.wait_records(topic, [100])
        mirror.settled(tasks=4, workers=2)
        assert len(set(re.findall(r"listening on (\S+)", mirror.text))) == 2
        mirror.stop()
    assert_equal_logs(flow, topic)
