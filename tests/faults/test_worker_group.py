"""Groups of workers under faults: killed, cut off from Kafka, behind, stuck, raced for.

Tasks write down what they do (`tests/plugins/staged.py`), which tells whether two workers ever ran
the same task at the same time, and whether one was begun with an older config.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from connect.clock import Deadline
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.copier.proxy import TcpProxy
from tests.support.records.reading import read_partition
from tests.support.records.topics import unique
from tests.support.rest import Answer, call
from tests.support.workers.distributed import Group, GroupWorker, worker_group
from tests.support.workers.java_connect import worker_properties
from tests.support.workers.ledgers import PLUGINS, Ledger, staged

# A worker that is cut off ends its session by its own clock. Its threads then need the CPU to stop
# their tasks: on a busy machine they get it late (docs/contributing/simulator.md).
ACTED_S = 1.5
SESSION_S = 6.0
"""The shortest that brokers allow."""
GRACEFUL_S = 2.0
# A connector's start may take twice as long, and a task that never stops hangs for ever: who waited
# for one of them would need longer.
HANG_S = 30.0
PROXIED = "PROXIED"


def properties(servers: str) -> dict[str, str]:
    return {
        **worker_properties(servers, unique("faults")),
        "plugin.path": str(PLUGINS),
        "session.timeout.ms": str(int(SESSION_S * 1000)),
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "1000",
        "task.shutdown.graceful.timeout.ms": str(int(GRACEFUL_S * 1000)),
    }


@pytest.fixture(scope="module")
def group(
    target_cluster: KafkaCluster,
    session_logs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Group]:
    """Three workers. A test that kills some starts them again."""
    logs = session_logs / "fault-group"
    logs.mkdir(exist_ok=True)
    given = properties(target_cluster.bootstrap_servers)
    with worker_group(3, given, tmp_path_factory.mktemp("group"), logs) as found:
        yield found


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def names(group: Group) -> Iterator[list[str]]:
    """Names of connectors that are gone when the test is over."""
    found: list[str] = []
    yield found
    # A test that failed in the middle may have left some dead.
    restart([worker for worker in group.workers if not worker.running])
    for name in found:
        group.accepted("DELETE", f"/connectors/{name}")
    group.until(lambda: group.placed()["connectors"] == {}, "all connectors are gone")


def create(group: Group, names: list[str], config: dict[str, str], what: str = "c") -> str:
    name = unique(what)
    group.create(name, config)
    names.append(name)
    return name


def restart(workers: list[GroupWorker]) -> None:
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.await_ready()


# Workers that die.


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(("leader",), marks=pytest.mark.slow),
        pytest.param(("follower",), marks=pytest.mark.slow),
        ("leader", "follower"),
    ],
)
def test_the_work_of_killed_workers_moves_and_is_shared_when_they_return(
    group: Group, names: list[str], ledger: Ledger, victims: tuple[str, ...]
) -> None:
    count = 4
    for _ in range(count):
        create(group, names, staged(3, ledger=str(ledger.directory)))
    group.until_balanced(count, 3 * count)
    leader = group.leader()
    followers = [worker for worker in group.workers if worker is not leader]
    killed = [leader] if "leader" in victims else []
    killed += followers[:1] if "follower" in victims else []
    for worker in killed:
        worker.kill()

    group.until_balanced(count, 3 * count)
    assert group.leader().running
    for name in names:
        answer = group.accepted("PUT", f"/connectors/{name}/pause")
        assert answer.status == 202
        group.accepted("PUT", f"/connectors/{name}/resume")

    restart(killed)
    group.until_balanced(count, 3 * count)
    assert overlaps(ledger) == []


def overlaps(ledger: Ledger, within_s: float = 0.0) -> list[str]:
    """Where a process ran a task when another had begun it already, for longer than `within_s`."""
    found = []
    for task in ledger.tasks():
        reigns = ledger.reigns(task)
        for (old, _, last), (new, first, _) in pairwise(reigns):
            if last - first > within_s:
                found.append(f"{task}: {old} went on for {last - first:.3f} s beside {new}")
    return found


# Workers that are cut off, or behind. These need a way to the brokers that can be spoiled.


@pytest.fixture(scope="module")
def proxied(kafka: KafkaRuntime, session_logs: Path) -> Iterator[tuple[KafkaCluster, TcpProxy]]:
    """A cluster of its own, and the proxy through which one listener of it is reached."""
    with ExitStack() as stack:
        proxies: list[TcpProxy] = []

        def advertise(listener: str, port: int) -> int:
            if listener != PROXIED:
                return port
            proxies.append(stack.enter_context(TcpProxy(port)))
            return proxies[-1].port

        cluster = stack.enter_context(
            KafkaCluster(
                name="proxied",
                listeners={PROXIED: "PLAINTEXT"},
                advertise=advertise,
                kafka=kafka,
                logs=session_logs,
            )
        )
        yield cluster, proxies[-1]


@pytest.fixture
def spoilt(
    proxied: tuple[KafkaCluster, TcpProxy], tmp_path: Path, logs: Path
) -> Iterator[tuple[Group, GroupWorker, TcpProxy]]:
    """Three workers; the last reaches Kafka through the proxy only."""
    cluster, proxy = proxied
    given = properties(cluster.bootstrap_servers)
    with worker_group(2, given, tmp_path, logs) as group:
        worker = GroupWorker(3, {**given, "bootstrap.servers": proxy.address}, tmp_path, logs)
        group.workers.append(worker)
        try:
            worker.start().await_ready()
            yield group, worker, proxy
            proxy.delay_to_client_s = 0.0
            proxy.heal()
            worker.stop()
        finally:
            worker.close()


def test_a_worker_cut_off_from_kafka_stops_its_tasks_before_others_begin_them(
    spoilt: tuple[Group, GroupWorker, TcpProxy], ledger: Ledger
) -> None:
    group, cut_off, proxy = spoilt
    for name in ("a", "b"):
        group.create(name, staged(3, ledger=str(ledger.directory)))
    group.until_balanced(2, 6)
    lost = [t for t, w in group.placed()["tasks"].items() if w == cut_off.worker_id]
    assert lost
    pid = cut_off.process.pid
    proxy.cut()

    def moved() -> bool:
        last = {task: ledger.last(task) for task in ledger.tasks()}
        # All others run on, or run again after a turn of the rebalance.
        beating = all(entry is not None and entry.event == "beat" for entry in last.values())
        return beating and all((entry := last[task]) and entry.pid != pid for task in lost)

    group.until(moved, "others run what the cut off worker ran")
    assert overlaps(ledger, ACTED_S) == []

    proxy.heal()
    group.until_balanced(2, 6)
    assert cut_off.process.pid == pid, "it is the same process"
    assert overlaps(ledger, ACTED_S) == []


@pytest.mark.slow
def test_a_worker_that_reads_the_configs_late_never_goes_back_to_older_ones(
    spoilt: tuple[Group, GroupWorker, TcpProxy], ledger: Ledger
) -> None:
    group, late, proxy = spoilt
    config = staged(3, ledger=str(ledger.directory), mark="0")
    for name in ("a", "b", "c"):
        group.create(name, config)
    group.until_balanced(3, 9)
    proxy.delay_to_client_s = 0.7
    for mark in range(1, 6):
        for name in ("a", "b", "c"):
            group.accepted("PUT", f"/connectors/{name}/config", {**config, "mark": str(mark)})

    def newest() -> bool:
        last = [entries[-1] for entries in ledger.tasks().values()]
        return all((entry.mark, entry.event) == ("5", "beat") for entry in last)

    group.until(newest, "all tasks run with the newest config", 120.0)
    group.until_balanced(3, 9, 120.0)
    assert late.worker_id in group.placed()["tasks"].values()
    assert list(ledger.backward_marks()) == []
    assert overlaps(ledger) == []


@pytest.mark.slow
def test_the_group_outlives_a_restart_of_its_coordinator(
    spoilt: tuple[Group, GroupWorker, TcpProxy],
    proxied: tuple[KafkaCluster, TcpProxy],
    ledger: Ledger,
) -> None:
    group, _, _ = spoilt
    cluster, _ = proxied
    group.create("a", staged(6, ledger=str(ledger.directory)))
    group.until_balanced(1, 6)
    cluster.node(1).kill()
    cluster.restart()
    back = max(entries[-1].at for entries in ledger.tasks().values())

    def beating() -> bool:
        last = [entries[-1] for entries in ledger.tasks().values()]
        return all(entry.event == "beat" and entry.at > back + SESSION_S for entry in last)

    group.until(beating, "all tasks go on")
    group.create("b", staged(3, ledger=str(ledger.directory)))
    group.until_balanced(2, 9)
    assert overlaps(ledger) == []


HOUR_S = 3600


@pytest.mark.slow
def test_workers_whose_clocks_are_hours_apart_work_together(
    target_cluster: KafkaCluster, tmp_path: Path, logs: Path, ledger: Ledger
) -> None:
    given = properties(target_cluster.bootstrap_servers)
    # Shorter than the clocks are apart: keys that look old, or not made yet, are renewed.
    given["inter.worker.key.ttl.ms"] = str(HOUR_S * 1000)
    with ExitStack() as stack:
        group = stack.enter_context(worker_group(1, given, tmp_path, logs))
        for number, skew_s in ((2, 3 * HOUR_S), (3, -3 * HOUR_S)):
            program = ("tests.support.workers.skewed_worker", str(skew_s))
            worker = GroupWorker(number, given, tmp_path, logs, program)
            stack.callback(worker.close)
            group.workers.append(worker.start().await_ready())
        config = staged(3, ledger=str(ledger.directory), mark="0")
        for name in ("a", "b"):
            group.create(name, config)
        group.until_balanced(2, 6)
        # Each of them leads for a while, and has the others ask it with signed requests.
        for mark in (1, 2):
            leader = group.leader()
            leader.kill()
            group.until_balanced(2, 2 * (2 + mark))
            restart([leader])
            group.until_balanced(2, 2 * (2 + mark))
            for name in ("a", "b"):
                put = {**config, "mark": str(mark), "tasks": str(3 + mark), "tasks.max": "9"}
                group.accepted("PUT", f"/connectors/{name}/config", put)
            group.until_balanced(2, 2 * (3 + mark))
        assert list(ledger.backward_marks()) == []
        assert overlaps(ledger) == []
        keys = session_keys(target_cluster, given)
        assert 1 <= keys <= 1 + 2 * 3, "keys are renewed by new leaders, not all the time"
        for worker in group.workers[1:]:
            worker.stop()


def session_keys(cluster: KafkaCluster, given: dict[str, str]) -> int:
    """How many session keys were written until now."""
    records = read_partition(cluster.bootstrap_servers, given["config.storage.topic"], 0)
    return sum(record.key == b"session-key" for record in records)


# Connectors and tasks that misbehave.


def test_a_connector_that_hangs_or_throws_at_its_start_holds_up_nobody(
    group: Group, names: list[str]
) -> None:
    create(group, names, staged(1, behaviour="hangs"), "hangs")
    throws = create(group, names, staged(1, behaviour="throws"), "throws")
    good = create(group, names, staged(3), "good")

    def connector_of(name: str) -> Any:
        return (group.status(name) or {}).get("connector", {})

    group.until_running(good, tasks=3)
    failed = group.until(lambda: connector_of(throws).get("state") == "FAILED", "it has failed")
    assert failed
    assert "the connector cannot start" in connector_of(throws)["trace"]
    began = Deadline(HANG_S)
    for worker in group.workers:
        assert call(worker.url, "GET", "/connectors").status == 200
    changed = group.accepted("PUT", f"/connectors/{good}/config", staged(2))
    assert changed.status == 200
    group.until(lambda: len((group.status(good) or {}).get("tasks", ())) == 2, "two tasks")
    assert not began.expired(), "others wait for the connector that hangs"


@pytest.mark.slow
def test_a_connector_whose_start_hangs_fails_in_the_end_and_heals_with_another_config(
    group: Group, names: list[str]
) -> None:
    name = create(group, names, staged(2, behaviour="hangs"))

    def state() -> Any:
        return (group.status(name) or {}).get("connector", {}).get("state")

    group.until(lambda: state() == "FAILED", "FAILED", 90.0)
    assert "did not start within 60 s" in (group.status(name) or {})["connector"]["trace"]
    group.accepted("PUT", f"/connectors/{name}/config", staged(2))
    group.until_running(name, tasks=2)


def test_a_task_that_never_stops_is_left_behind_and_its_successor_starts(
    group: Group, names: list[str], ledger: Ledger
) -> None:
    config = staged(1, ledger=str(ledger.directory), mark="1", behaviour="never stops")
    name = create(group, names, config)
    group.until_running(name, tasks=1)
    began = Deadline(HANG_S)
    good = staged(1, ledger=str(ledger.directory), mark="2")
    group.accepted("PUT", f"/connectors/{name}/config", good)

    def replaced() -> bool:
        entry = ledger.last(f"{name}-0")
        return entry is not None and (entry.event, entry.mark) == ("beat", "2")

    group.until(replaced, "the successor runs")
    group.until_running(name, tasks=1)
    assert not began.expired()
    assert [one.event for one in ledger.of(f"{name}-0") if one.mark == "1"] == ["start"]


def test_a_task_that_never_stops_does_not_keep_its_connector_from_being_deleted(
    group: Group, names: list[str]
) -> None:
    name = create(group, names, staged(2, behaviour="never stops"))
    group.until_running(name, tasks=2)
    group.accepted("DELETE", f"/connectors/{name}")
    names.remove(name)
    group.until(lambda: group.status(name) is None, "no status")


# Writers that race.

ALLOWED = {
    "PUT": {200, 201, 409},
    "PATCH": {200, 404, 409},
    "DELETE": {204, 404, 409},
    "POST": {201, 409},
}
WRITERS, ROUNDS = 4, 25


def test_writers_that_race_get_answers_of_java_s_and_workers_end_consistent(
    group: Group, ledger: Ledger
) -> None:
    mine = [unique("raced") for _ in range(3)]
    answers: Counter[tuple[str, int]] = Counter()
    lock = threading.Lock()

    def write(number: int) -> list[str]:
        dice = random.Random(number)
        wrong = []
        for step in range(ROUNDS):
            name, method = dice.choice(mine), dice.choice(sorted(ALLOWED))
            worker = dice.choice(group.workers)
            answer = ask(worker, method, name, staged(2, mark=str(number * 1000 + step)))
            with lock:
                answers[method, answer.status] += 1
            if answer.status not in ALLOWED[method]:
                wrong.append(f"{method} {name}: {answer.status} {answer.body!r}")
        return wrong

    with ThreadPoolExecutor(WRITERS) as pool:
        wrong = [text for found in pool.map(write, range(WRITERS)) for text in found]
    assert wrong == []
    print(dict(sorted(answers.items())))
    assert {status for _, status in answers} >= {200, 201, 204}

    def same() -> Any:
        seen = [call(w.url, "GET", "/connectors?expand=info").json() for w in group.workers]
        return seen[0] == seen[1] == seen[2] and (seen[0],)

    (left,) = group.until(same, "all workers show the same")
    assert set(left) <= set(mine)
    group.until_balanced(len(left), 2 * len(left))
    for name, shown in left.items():
        wanted = {shown["info"]["config"]["mark"]}

        # A herder writes the new task configs after it answered the request.
        def tasks_follow(name: str = name, wanted: set[str] = wanted) -> bool:
            tasks = call(group.first.url, "GET", f"/connectors/{name}/tasks").json()
            return {task["config"]["mark"] for task in tasks} == wanted

        group.until(tasks_follow, f"the tasks of {name} have its last config")
        group.accepted("DELETE", f"/connectors/{name}")


def ask(worker: GroupWorker, method: str, name: str, config: dict[str, str]) -> Answer:
    match method:
        case "POST":
            return call(worker.url, "POST", "/connectors", {"name": name, "config": config})
        case "PUT":
            return call(worker.url, "PUT", f"/connectors/{name}/config", config)
        case "PATCH":
            return call(worker.url, "PATCH", f"/connectors/{name}/config", {"mark": config["mark"]})
        case _:
            return call(worker.url, "DELETE", f"/connectors/{name}")
