"""`connect-mirror` beside a running mirror: status, lag, check, why, pause and resume."""

from __future__ import annotations

import getpass
import json
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deploy.brokers import KafkaCluster
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.deployment.monitoring import alert_metrics, dashboard_metrics
from tests.support.flows.mirrored import MirroredFlow, running
from tests.support.properties_files import properties_text
from tests.support.records.groups import commit
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import unique
from tests.support.served import health_of, page
from tests.support.waiting import wait_until

TIMEOUT_S = 120.0
MODULE = "api.cli.connect_mirror.main"


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def ask(path: Path, *arguments: str) -> tuple[int, Any]:
    """Return the exit code and the JSON of a subcommand."""
    command, *rest = arguments
    ended = subprocess.run(
        [sys.executable, "-m", MODULE, command, "-c", str(path), "-o", "json", *rest],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else ended.stderr


def test_the_subcommands_tell_of_a_running_flow_and_pause_it(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    topic, ignored = flow.topic("t", partitions=2), flow.topic("ignored")
    produce(flow.source_servers, topic, numbered(50))
    with closing(PortLease(cache_directory() / "ports")) as lease:
        url = f"http://{LOOPBACK}:{lease.port}"
        changes = {"metrics.listener": url, "topics.exclude": ".*ignored"}
        path = tmp_path / "mm2.properties"
        properties = flow.properties(changes)
        path.write_text(properties_text(properties))

        code, before = ask(path, "check", "--exit-code", "--rate", "10")
        assert code == 3
        assert before["flows"][0]["backlog"]["records"] == 50
        assert before["flows"][0]["backlog"]["seconds"] == 5.0
        code, [why] = ask(path, "why", "--topic", topic)
        assert (code, why["steps"][-1]["question"]) == (3, "Do workers run the flow?")
        group = unique("g")
        commit(flow.source_servers, group, {(topic, 0): 40})
        assert "Do workers run the flow?" in _wrong(path, group)

        with running(properties, tmp_path, logs / "mirror.log"):
            flow.wait_records(topic, [50, 0])
            wait_until(lambda: ask(path, "status")[0] == 0, 60, "a healthy status")
            _, status = ask(path, "status")
            [shown] = status["flows"]
            assert shown["flow"] == f"{flow.a}->{flow.b}"
            assert {(p["topic"], p["partition"]) for p in shown["partitions"]} == {
                (topic, 0),
                (topic, 1),
            }
            code, rows = ask(path, "lag", "--flow", f"{flow.a}:{flow.b}", "--topics", topic)
            assert (code, {row["topic"] for row in rows}) == (0, {topic})

            code, [why] = ask(path, "why", "--topic", ignored)
            stop = why["steps"][-1]
            assert (code, stop["verdict"], stop["key"]) == (3, "stop", "topics.exclude")
            lines = path.read_text().splitlines()
            assert lines[stop["line"] - 1].startswith("topics.exclude")
            wait_until(lambda: ask(path, "why", "--topic", topic)[0] == 0, 60, "nothing wrong")

            wanted = alert_metrics() | dashboard_metrics()
            # Checkpoints have metrics once there is a group.
            wanted = {name for name in wanted if "checkpoint" not in name}
            wait_until(
                lambda: not {name for name in wanted if f"\n{name}" not in page(url, "/metrics")},
                60,
                "a scrape with every metric of the alerts and the dashboard",
            )

            code, done = ask(path, "pause")
            assert (code, done["state"]) == (0, "PAUSED")
            wait_until(lambda: states(path) == {"PAUSED"}, 60, "the pause")
            _, status = ask(path, "status")
            assert [each["paused"] for each in status["flows"]] == [True]
            code, [why] = ask(path, "why", "--topic", topic)
            wrong = [each["question"] for each in why["steps"] if each["verdict"] != "ok"]
            assert (code, wrong) == (3, ["Is the flow paused or stopped?"])
            told = _wrong(path, group)
            assert "Is the flow paused or stopped?" in told
            assert "Do workers run the flow?" not in told
            code, done = ask(path, "resume")
            assert set(done["connectors"].values()) == {"PAUSED"}
            wait_until(lambda: states(path) == {"RUNNING"}, 60, "the end of the pause")
            wait_until(lambda: {"pause", "resume"} <= _told(url, flow).keys(), 60, "both events")
            for command in ("pause", "resume"):
                who = f"{getpass.getuser()} on {socket.gethostname()}"
                says = f"{who}: connect-mirror {command} {flow.a}->{flow.b}: "
                assert _told(url, flow)[command].startswith(says)


def _told(url: str, flow: MirroredFlow) -> dict[str, str]:
    """What the history tells of changes of the flow, by what was done."""
    told = json.loads(page(url, f"/mirrors/{flow.a}-%3E{flow.b}/events"))["events"]
    return {each["action"]: each["text"] for each in told if each["kind"] == "changed"}


def _wrong(path: Path, group: str) -> list[str]:
    """Return the questions about a group whose answers are not as wanted."""
    _, [why] = ask(path, "why", "--group", group)
    return [each["question"] for each in why["steps"] if each["verdict"] != "ok"]


def states(path: Path) -> set[str]:
    listener = next(
        line.partition("= ")[2]
        for line in path.read_text().splitlines()
        if line.startswith("metrics.listener")
    )
    connectors = health_of(listener)["connectors"]
    return {each["state"] for each in connectors} | {
        task["state"] for each in connectors for task in each["tasks"]
    }
