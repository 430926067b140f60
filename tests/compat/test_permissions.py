"""The permissions of docs/reference/permissions.md are enough, for Java's MirrorMaker 2, too, and
none of them can be left out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from connect.clients.permissions import Operation
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC
from connectors.mirrormaker.check.check import check as checked
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import plan_flows
from connectors.mirrormaker.permissions import flow_features
from connectors.mirrormaker.required_permissions import OTHERS, TOOLS, Feature
from deploy.brokers import GuardedProcess, KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.flows.mirrored import assert_equal_logs, running, stop_cleanly
from tests.support.flows.mirrors import java_mirror_maker
from tests.support.properties_files import properties_text
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import topic_names, unique
from tests.support.security.guarded_flow import (
    COUNT,
    JAVA_HAS,
    ONCE,
    OURS,
    SOON_S,
    Guarded,
    granted,
    unhealthy,
    wait_well,
)
from tests.support.security.permissions import authorizing_cluster, grant, group, login, revoke
from tests.support.waiting import wait_until

USERS = ("java", "ours", "map", "once", "refused", "nobody", "checked", "asked", "taken")


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
    ("user", "features", "extra"),
    [
        ("ours", JAVA_HAS, {}),
        pytest.param("map", JAVA_HAS | OURS, {}, marks=pytest.mark.slow),
        pytest.param(
            "once",
            JAVA_HAS | OURS | {Feature.EXACTLY_ONCE},
            ONCE,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["javas", "javas and ours", "exactly once"],
)
def test_ours_works_with_the_permissions_that_java_needs(
    clusters: tuple[KafkaCluster, KafkaCluster],
    user: str,
    features: frozenset[Feature],
    extra: Mapping[str, str],
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    guarded, log = Guarded(clusters, user), logs / "mirror.log"
    guarded.grant(features, extra=extra)
    with running(guarded.properties(listener, extra), tmp_path, log) as mirror:
        guarded.wait_copied()
        guarded.wait_group()
        guarded.wait_heartbeats()
        guarded.flow.wait_stored(guarded.topic, 0, COUNT - 1)
        wait_well(listener)
        stop_cleanly(mirror, log)
    text = log.read_text()
    assert "GROUP_AUTHORIZATION_FAILED" not in text
    # Only about topics that Java does not have, and once by each part that uses them.
    denied = [line for line in text.splitlines() if "AUTHORIZATION_FAILED" in line]
    assert bool(denied) == (Feature.OFFSET_MAP not in features)
    own = (guarded.flow.map_topic, PROVENANCE_TOPIC)
    assert all(any(name in line for name in own) and "grant " in line for line in denied), denied
    assert len(denied) <= 6, denied


def lines_about(log: Path, error: str) -> list[str]:
    return [line for line in log.read_text().splitlines() if error in line]


def test_without_read_on_its_group_it_says_so_once_and_works_once_that_is_granted(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path, listener: str
) -> None:
    guarded, log = Guarded(clusters, "refused"), logs / "mirror.log"
    flow = guarded.flow
    guarded.grant(JAVA_HAS, leave_out=f"{flow.a}-mm2")

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


def test_a_permission_that_is_taken_away_is_named_and_taken_up_again_while_it_runs(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path, listener: str
) -> None:
    guarded, log = Guarded(clusters, "taken"), logs / "mirror.log"
    flow = guarded.flow
    needed = guarded.needed(JAVA_HAS)
    guarded.grant(JAVA_HAS)
    wanted = {
        f"grant Read on topic {guarded.topic} at the source": (Operation.READ, flow.prefix),
        f"grant Write on topic {flow.remote(guarded.topic)} at the target": (
            Operation.WRITE,
            flow.remote(flow.prefix),
        ),
        f"grant Read on group {flow.a}-mm2": (Operation.READ, f"{flow.a}-mm2"),
    }
    with running(guarded.properties(listener), tmp_path, log) as mirror:
        guarded.wait_copied()
        wait_well(listener)
        copied = COUNT
        for sentence, (operation, name) in wanted.items():
            (permission,) = (
                each
                for each in needed
                if each.operation is operation and each.pattern.name.startswith(name)
            )
            cluster, taken = guarded.cluster(permission), [granted(permission)]
            revoke(cluster, guarded.user, taken)
            produce(flow.source_servers, guarded.topic, numbered(10, start=copied))
            copied += 10
            wait_until(
                lambda sentence=sentence: sentence in unhealthy(listener),  # type: ignore[misc]
                SOON_S,
                f"{sentence} on /health",
            )
            grant(cluster, guarded.user, taken)
            flow.wait_records(guarded.topic, [copied], SOON_S)
            wait_well(listener)
        assert mirror.running()
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, guarded.topic)


def check(guarded: Guarded, directory: Path, **logins: str) -> subprocess.CompletedProcess[str]:
    """What `--check` says of the flow; `logins` in place of its own."""
    path = directory / "mm2.properties"
    lines = {**guarded.properties(""), **logins}
    path.write_text(properties_text(lines))
    command = [sys.executable, "-m", "api.cli.mirror_maker", "--check", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_check_names_what_is_missing(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path
) -> None:
    guarded = Guarded(clusters, "checked")
    flow = guarded.flow
    found = check(guarded, tmp_path)
    assert found.returncode == 1, found.stdout
    text = " ".join(found.stdout.split())
    assert f"grant Read on group {flow.a}-mm2" in text
    assert f"grant Create, Read and Write on topic {flow.syncs_topic}" in text
    for name in (flow.offsets_topic, f"mm2-configs.{flow.a}.internal"):
        assert f"grant Create, Read, Write and DescribeConfigs on topic {name}" in text
    guarded.grant(JAVA_HAS)
    allowed = check(guarded, tmp_path)
    assert allowed.returncode == 0, allowed.stdout
    for name in (flow.map_topic, PROVENANCE_TOPIC):
        assert f"on topic {name}; without it" in " ".join(allowed.stdout.split())


def test_check_asks_for_each_permission_and_changes_nothing(
    clusters: tuple[KafkaCluster, KafkaCluster],
) -> None:
    """With all, nothing is missing; without any one of them, it is named, and only it. No topic of
    the flow but its source exists, and afterwards there are no more."""
    guarded = Guarded(clusters, "asked")
    extra = {
        **ONCE,
        "topics": guarded.topic,
        "heartbeats.replication.enabled": "true",
        "sync.topic.configs.enabled": "true",
        "sync.topic.acls.enabled": "true",
        "mirror.quarantine.topic": unique("quarantine"),
    }
    config = MirrorMakerConfig.from_properties(guarded.properties("", extra))
    (plan,) = plan_flows(config)
    features = flow_features(config, plan)
    assert features | TOOLS | OTHERS == set(Feature)
    guarded.grant(features, extra=extra)
    before = [topic_names(cluster.bootstrap_servers) for cluster in clusters]

    def complete() -> bool:
        return not any("grant" in finding.text for finding in checked(config).findings)

    wait_until(complete, SOON_S, "the brokers to know all permissions")
    for permission in guarded.needed(features, extra):
        cluster, taken = guarded.cluster(permission), [granted(permission)]
        if permission.operation is Operation.CREATE and permission.pattern.name == "heartbeats":
            continue  # it exists where another test has run: Create is not needed then
        revoke(cluster, guarded.user, taken)
        wanted = f"grant {permission.operation} on "

        def named(wanted: str = wanted) -> bool:
            found = [f.text for f in checked(config).findings if "grant " in f.text]
            return len(found) == 1 and wanted in found[0]

        wait_until(named, SOON_S, f"{permission} is missing")
        grant(cluster, guarded.user, taken)
    assert [topic_names(cluster.bootstrap_servers) for cluster in clusters] == before


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
