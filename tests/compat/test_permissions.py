"""The permissions that Java's MirrorMaker 2 needs suffice for ours.

They are those of docs/reference/permissions.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import pytest

from deploy.brokers import GuardedProcess, KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.groups import commit, committed
from tests.support.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.mirrors import java_mirror_maker
from tests.support.permissions import Grant, authorizing_cluster, grant, group, login, topic
from tests.support.producing import numbered, produce
from tests.support.served import health_of
from tests.support.topics import end_offsets, unique
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "permissions.md"
JAVA_HAS = frozenset(
    {"copying", "group offsets", "group sync", "heartbeats", "new partitions", "config sync"}
)
COUNT = 200
SOON_S = 60.0
USERS = ("java", "ours", "map", "refused", "nobody", "checked")


@dataclass(frozen=True)
class Permission:
    """A row of the page's table."""

    cluster: str
    resource: str
    name: str
    operations: str
    feature: str

    def grant(self, flow: MirroredFlow, consumer_group: str) -> Grant:
        name = self.name.replace("<topics>", f"{flow.prefix}*").replace("<groups>", consumer_group)
        name = re.sub(r"\bA(?=[.-])", flow.a, name)
        name = re.sub(r"(?<=\.)(A|B)(?=\.)", lambda m: flow.a if m[0] == "A" else flow.b, name)
        operations = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.operations).replace(",", "")
        return {"topic": topic, "group": group}[self.resource](name, operations)


def documented() -> list[Permission]:
    section = PAGE.read_text()
    rows = [line for line in section.splitlines() if line.startswith(("| A |", "| B |"))]
    cells = [[cell.strip(" `") for cell in row.strip("| ").split("|")] for row in rows]
    return [Permission(*row) for row in cells]


@pytest.fixture(scope="module")
def clusters(
    kafka: KafkaRuntime, session_logs: Path
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    made = [
        authorizing_cluster(f"authorizing-{side}", USERS, kafka, session_logs)
        for side in ("source", "target")
    ]
    with made[0] as source, made[1] as target:
        yield source, target


@pytest.fixture
def listener() -> Iterator[str]:
    lease = PortLease(cache_directory() / "ports")
    try:
        yield f"http://{LOOPBACK}:{lease.port}"
    finally:
        lease.close()


class Guarded:
    """A flow whose mirror logs in as `user`, and may do what was granted."""

    def __init__(self, clusters: tuple[KafkaCluster, KafkaCluster], user: str) -> None:
        self.flow = MirroredFlow(*clusters)
        self.user = user
        self.group = unique("readers")
        self.topic = self.flow.topic("t", partitions=2)
        produce(self.flow.source_servers, self.topic, numbered(COUNT))
        commit(self.flow.source_servers, self.group, {(self.topic, 0): COUNT // 2})

    def grant(self, features: frozenset[str], leave_out: str = "") -> None:
        """Everything the page says of these features, but for what is about `leave_out`."""
        for cluster, name in ((self.flow.source, "A"), (self.flow.target, "B")):
            grants = [
                row.grant(self.flow, self.group)
                for row in documented()
                if row.cluster == name and row.feature in features and row.name != leave_out
            ]
            grant(cluster, self.user, grants)

    def properties(self, listener: str) -> dict[str, str]:
        logins = {
            f"{alias}.{key}": value
            for alias, cluster in (("A", self.flow.source), ("B", self.flow.target))
            for key, value in login(cluster, self.user).items()
        }
        return self.flow.properties(
            {
                **logins,
                "metrics.listener": listener,
                "emit.heartbeats.enabled": "true",
                "A->B.emit.heartbeats.interval.seconds": "1",
                "B->A.emit.heartbeats.enabled": "false",
                "groups": self.group,
                "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": "1",
            }
        )

    def wait_copied(self) -> None:
        self.flow.wait_records(self.topic, [COUNT], SOON_S)
        assert_equal_logs(self.flow, self.topic)

    def wait_group(self) -> None:
        place = (self.flow.remote(self.topic), 0)

        def synced() -> int | None:
            return committed(self.flow.target_servers, self.group).get(place)

        wait_until(synced, SOON_S, f"{self.group} on the target")

    def wait_heartbeats(self) -> None:
        def beats() -> bool:
            return sum(end_offsets(self.flow.target_servers, "heartbeats").values()) > 0

        wait_until(beats, SOON_S, "heartbeats")


def unhealthy(listener: str) -> str:
    """The document of `/health` while it is not well; empty when it is."""
    try:
        found = health_of(listener)
    except URLError as error:
        return f"no answer: {error}"
    return "" if found["status"] == "healthy" and found["connectors"] else str(found)


def wait_well(listener: str) -> None:
    wait_until(lambda: not unhealthy(listener), SOON_S, "the flow is healthy")


@pytest.mark.slow
def test_java_works_with_the_permissions_of_the_page(
    kafka: KafkaRuntime,
    clusters: tuple[KafkaCluster, KafkaCluster],
    logs: Path,
    tmp_path: Path,
) -> None:
    guarded = Guarded(clusters, "java")
    guarded.grant(JAVA_HAS)
    properties = guarded.properties("")
    with java_mirror_maker(kafka, properties, tmp_path, logs / "java.log") as mirror:
        guarded.wait_copied()
        guarded.wait_group()
        guarded.wait_heartbeats()
        mirror.stop(30)
    assert "AuthorizationException" not in (logs / "java.log").read_text()


@pytest.mark.parametrize(
    ("user", "features"),
    [("ours", JAVA_HAS), pytest.param("map", JAVA_HAS | {"offset map"}, marks=pytest.mark.slow)],
    ids=["javas", "javas and the map"],
)
def test_ours_works_with_the_permissions_that_java_needs(
    clusters: tuple[KafkaCluster, KafkaCluster],
    user: str,
    features: frozenset[str],
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    guarded, log = Guarded(clusters, user), logs / "mirror.log"
    guarded.grant(features)
    with running(guarded.properties(listener), tmp_path, log) as mirror:
        guarded.wait_copied()
        guarded.wait_group()
        guarded.wait_heartbeats()
        guarded.flow.wait_stored(guarded.topic, 0, COUNT - 1)
        wait_well(listener)
        stop_cleanly(mirror, log)
    text = log.read_text()
    assert "GROUP_AUTHORIZATION_FAILED" not in text
    # Only about the map, which Java does not have, and once by each part that uses it.
    denied = [line for line in text.splitlines() if "AUTHORIZATION_FAILED" in line]
    assert bool(denied) == ("offset map" not in features)
    assert all(guarded.flow.map_topic in line and "grant " in line for line in denied), denied
    assert len(denied) <= 5, denied


def lines_about(log: Path, error: str) -> list[str]:
    return [line for line in log.read_text().splitlines() if error in line]


def test_without_read_on_its_group_it_says_so_once_and_works_once_that_is_granted(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path, listener: str
) -> None:
    guarded, log = Guarded(clusters, "refused"), logs / "mirror.log"
    flow = guarded.flow
    guarded.grant(JAVA_HAS, leave_out="A-mm2")

    def tries(mirror: GuardedProcess) -> int:
        assert mirror.running()
        return len(lines_about(log, "Joining group"))

    with running(guarded.properties(listener), tmp_path, log) as mirror:
        wanted = f"grant Read on group {flow.a}-mm2"
        wait_until(lambda: wanted in unhealthy(listener), SOON_S, "the page says what to grant")
        wait_until(lambda: tries(mirror), SOON_S, "the log, too")
        grant(flow.target, guarded.user, [group(f"{flow.a}-mm2", "read")])
        guarded.wait_copied()
        wait_well(listener)
        stop_cleanly(mirror, log)
    assert len(lines_about(log, "GROUP_AUTHORIZATION_FAILED")) == 1
    assert len(lines_about(log, "works again")) <= 1


def check(guarded: Guarded, directory: Path, **logins: str) -> subprocess.CompletedProcess[str]:
    """What `--check` says of the flow; `logins` in place of its own."""
    path = directory / "mm2.properties"
    lines = {**guarded.properties(""), **logins}
    path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    command = [sys.executable, "-m", "api.cli.mirror_maker", "--check", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_check_names_what_is_missing(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path
) -> None:
    guarded = Guarded(clusters, "checked")
    flow = guarded.flow
    found = check(guarded, tmp_path)
    assert found.returncode == 1, found.stdout
    assert f"join group {flow.a}-mm2; grant Read" in found.stdout
    for name in (flow.syncs_topic, flow.offsets_topic, f"mm2-configs.{flow.a}.internal"):
        assert f"describe topic {name}; grant Create, Read and Write" in found.stdout
    guarded.grant(JAVA_HAS)
    allowed = check(guarded, tmp_path)
    assert allowed.returncode == 0, allowed.stdout
    assert f"topic {flow.map_topic}; grant" in allowed.stdout


def test_check_says_that_a_password_is_wrong(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path
) -> None:
    guarded = Guarded(clusters, "checked")
    a, b = guarded.flow.a, guarded.flow.b
    wrong = login(guarded.flow.source, "checked", password="wrong")
    found = check(
        guarded,
        tmp_path,
        **{
            f"{a}.sasl.jaas.config": wrong["sasl.jaas.config"],
            f"{b}.security.protocol": "PLAINTEXT",
        },
    )
    assert found.returncode == 1, found.stdout
    assert f"Cannot reach cluster {a}" in found.stdout
    assert "SASL PLAIN" in found.stdout
    assert "check that security.protocol matches the listener" in found.stdout


@pytest.mark.slow
def test_a_user_without_any_permission_is_told_what_to_grant(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path, listener: str
) -> None:
    guarded, log = Guarded(clusters, "nobody"), logs / "mirror.log"
    with running(guarded.properties(listener), tmp_path, log):
        wait_until(lambda: "; grant " in unhealthy(listener), SOON_S, "what to grant")
