"""Key and trust stores of clients are replaced while the clients live, and the brokers accept only
the new ones from then on: clients and a whole mirror go on without a restart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.config.properties import wire_settings
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.record_sender import RecordSender
from connect.clients.librdkafka.renewed_producer import RenewedProducer
from connect.clock import Deadline
from connect.errors import ConnectError
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, end_offsets, unique
from tests.support.security.certificates import Authority
from tests.support.waiting import wait_until

AMPLE_S = 60.0
_BROKER = "listener.name.mutual.ssl"


class Rotated:
    """A broker that admits only clients whose certificate its authority has signed, and the files
    of both sides."""

    def __init__(self, directory: Path, kafka: KafkaRuntime, logs: Path) -> None:
        self._directory = directory
        self.rotate()
        stores = {
            "keystore.type": "PEM",
            "keystore.location": str(directory / "broker.pem"),
            "truststore.type": "PEM",
            "truststore.location": str(directory / "ca.pem"),
            "client.auth": "required",
        }
        self.cluster = KafkaCluster(
            name="rotated",
            kafka=kafka,
            logs=logs,
            listeners={"MUTUAL": "SSL"},
            properties={f"{_BROKER}.{key}": value for key, value in stores.items()},
        )

    def rotate(self) -> None:
        """Another authority, and keys and certificates from it. The broker reads its files when it
        starts."""
        authority = Authority()
        self._put("ca.pem", authority.pem)
        for name in ("broker", "client"):
            self._put(f"{name}.pem", *authority.issue(name, "127.0.0.1"))

    def _put(self, name: str, *parts: str) -> None:
        new = self._directory / f"{name}.new"
        new.write_text("".join(parts))
        os.replace(new, self._directory / name)

    @property
    def properties(self) -> dict[str, str]:
        """Java client properties."""
        return {
            "bootstrap.servers": self.cluster.bootstrap("MUTUAL"),
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._directory / "client.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._directory / "ca.pem"),
        }

    def rotate_and_restart(self) -> None:
        self.cluster.stop()
        self.rotate()
        self.cluster.restart()


@pytest.fixture(scope="module")
def rotated(
    kafka: KafkaRuntime, session_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rotated]:
    made = Rotated(tmp_path_factory.mktemp("stores"), kafka, session_logs)
    with made.cluster:
        yield made


def test_clients_that_live_on_log_in_with_the_new_certificates(rotated: Rotated) -> None:
    topic = create_topic(rotated.cluster.bootstrap_servers, name=unique("rotated"))
    props = rotated.properties
    link = ClusterLink(wire_settings(props), lambda: None, name="rotated")
    admin, sender = Admin(props), RecordSender(props)
    producer, written = RenewedProducer(props), list[object]()

    def link_works() -> bool:
        nodes = link.snapshot.nodes
        try:
            for node in nodes:
                link.connect(node).result(AMPLE_S).close()
        except ConnectError:
            return False
        return bool(nodes)

    def admin_works() -> bool:
        try:
            return topic in admin.list_topics(5.0)
        except ConnectError:
            return False

    def sender_works() -> bool:
        sender.send_future(topic, b"k", b"v").result(AMPLE_S)
        return True

    def producer_works() -> bool:
        for _ in range(3):
            producer.poll(0.1)  # as its writers do all the time
        producer.produce(topic, value=b"v", on_delivery=lambda error, _: written.append(error))
        wait_until(acknowledged, AMPLE_S, "an acknowledgement")
        return written.pop() is None

    def acknowledged() -> bool:
        producer.poll(0.1)
        return bool(written)

    works = (link_works, admin_works, sender_works, producer_works)
    with closing(link), closing(admin):
        for each in works:
            wait_until(each, AMPLE_S, each.__name__)
        rotated.rotate_and_restart()
        for each in works:
            wait_until(each, AMPLE_S, f"{each.__name__} with the new certificates")
        sender.close(Deadline(AMPLE_S))


def statuses(flow: MirroredFlow) -> int:
    """How many statuses the flow's workers have written."""
    topic = f"mm2-status.{flow.a}.internal"
    return sum(end_offsets(flow.target_servers, topic).values())


# A broker that is restarted on a busy machine is away for longer than the default session, and the
# leader waits this long for a worker that has left.
PATIENT = {
    "B.session.timeout.ms": "30000",
    "B.scheduled.rebalance.max.delay.ms": "500",
}


@pytest.mark.slow
def test_a_mirror_goes_on_with_the_new_certificates(
    source_cluster: KafkaCluster, rotated: Rotated, logs: Path, tmp_path: Path
) -> None:
    flow, log = MirroredFlow(source_cluster, rotated.cluster), logs / "mirror.log"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(100))
    secure = {f"{flow.b}.{key}": value for key, value in rotated.properties.items()}
    with running(flow.properties({**PATIENT, **secure}), tmp_path, log) as mirror:
        flow.wait_records(topic, [100], AMPLE_S)
        flow.wait_stored(topic, 0, 99)
        before = statuses(flow)
        rotated.rotate_and_restart()
        produce(flow.source_servers, topic, numbered(100, start=100))
        flow.wait_records(topic, [200], AMPLE_S)
        flow.wait_stored(topic, 0, 199)
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)
    # What the workers say at their end was written, too.
    assert statuses(flow) > before
