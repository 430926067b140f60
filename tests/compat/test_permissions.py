"""The permissions of docs/reference/permissions.md are enough, for Java's MirrorMaker 2, too, and
none of them can be left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from connect.clients.permissions import Operation
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC
from connectors.mirrormaker.required_permissions import Feature
from deploy.brokers import GuardedProcess, KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.flows.mirrored import assert_equal_logs, running, stop_cleanly
from tests.support.flows.mirrors import java_mirror_maker
from tests.support.records.producing import numbered, produce
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
from tests.support.security.permissions import authorizing_cluster, grant, group, revoke
from tests.support.waiting import wait_until

USERS = ("java", "ours", "map", "once", "refused", "nobody", "taken")


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


@pytest.mark.slow
def test_a_user_without_any_permission_is_told_what_to_grant(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path, listener: str
) -> None:
    guarded, log = Guarded(clusters, "nobody"), logs / "mirror.log"
    with running(guarded.properties(listener), tmp_path, log):
        wait_until(lambda: "; grant " in unhealthy(listener), SOON_S, "what to grant")
