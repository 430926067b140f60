"""The mirror as a process between listeners with mutual TLS, each with an authority of its own: the
certificate of each side is the user there, and no other one is let in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from deploy.brokers.ports import LOOPBACK
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.properties_files import properties_text
from tests.support.records.groups import commit, wait_group
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import unique
from tests.support.security.certificates import Authority
from tests.support.security.secure_listeners import tls_properties

CHECK_S = 120.0
COUNT = 200
LISTENERS = {"LEFT": "SSL", "RIGHT": "SSL"}
SIDES = {"A": "LEFT", "B": "RIGHT"}
USERS = {"A": "mirror-at-a", "B": "mirror-at-b"}


@dataclass
class Mutual:
    """A broker with a listener for each side, and the files of clients."""

    cluster: KafkaCluster
    folder: Path

    def properties(self, keys: dict[str, str]) -> dict[str, str]:
        """`keys`: the name of the key file by side."""
        found: dict[str, str] = {}
        for side, listener in SIDES.items():
            stores = {
                "bootstrap.servers": self.cluster.bootstrap(listener),
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.folder / f"ca-{side}.pem"),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.folder / f"{keys[side]}.pem"),
            }
            found |= {f"{side}.{key}": value for key, value in stores.items()}
        return found


@pytest.fixture(scope="module")
def mutual(
    kafka: KafkaRuntime, session_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mutual]:
    folder = tmp_path_factory.mktemp("mutual")
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(
            ["User:ANONYMOUS", *(f"User:CN={user}" for user in USERS.values())]
        ),
    }
    for side, listener in SIDES.items():
        authority, name = Authority(), listener.lower()
        properties |= tls_properties(name, authority, LOOPBACK)
        properties[f"listener.name.{name}.ssl.client.auth"] = "required"
        (folder / f"ca-{side}.pem").write_text(authority.pem)
        for user in (USERS[side], f"stranger-at-{side}"):
            (folder / f"{user}.pem").write_text("".join(authority.issue(user)))
    with KafkaCluster(
        name="mutual", kafka=kafka, logs=session_logs, listeners=LISTENERS, properties=properties
    ) as cluster:
        yield Mutual(cluster, folder)


@pytest.fixture
def flow(mutual: Mutual) -> MirroredFlow:
    return MirroredFlow(mutual.cluster, mutual.cluster)


def check(flow: MirroredFlow, properties: dict[str, str], folder: Path) -> tuple[int, str]:
    """The exit code of --check, and what it says."""
    path = folder / "check.properties"
    path.write_text(properties_text(flow.properties(properties)))
    command = [sys.executable, "-m", "api.cli.mirror_maker", "--check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_S, check=False)
    return done.returncode, done.stdout + done.stderr


def test_records_and_offsets_are_copied_with_a_certificate_at_each_end(
    mutual: Mutual, flow: MirroredFlow, tmp_path: Path, logs: Path
) -> None:
    topic, group, log = flow.topic(), unique("readers"), logs / "mirror.log"
    produce(flow.source_servers, topic, numbered(COUNT))
    commit(flow.source_servers, group, {(topic, 0): COUNT})
    properties = {
        **mutual.properties(USERS),
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    code, said = check(flow, properties, tmp_path)
    assert code == 0, said
    with running(flow.properties(properties), tmp_path, log) as mirror:
        flow.wait_records(topic, [COUNT])
        wait_group(flow.target_servers, group, flow.remote(topic), COUNT)
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)


def test_the_certificate_of_the_other_side_is_refused(
    mutual: Mutual, flow: MirroredFlow, tmp_path: Path
) -> None:
    swapped = {"A": USERS["B"], "B": USERS["A"]}
    code, said = check(flow, mutual.properties(swapped), tmp_path)
    assert code == 1
    assert "certificate" in said.lower()


def test_a_certificate_of_another_user_has_no_rights(
    mutual: Mutual, flow: MirroredFlow, tmp_path: Path
) -> None:
    produce(flow.source_servers, flow.topic(), numbered(1))
    code, said = check(flow, mutual.properties({**USERS, "B": "stranger-at-B"}), tmp_path)
    assert code == 1
    assert "may not" in said or "not authorized" in said.lower()
