"""Key and trust stores of clients are replaced while the clients live, and the brokers accept only
the new ones from then on: clients and a whole mirror go on without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.config.properties import wire_settings
from connect.clients.librdkafka import factory
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.record_sender import RecordSender
from connect.clients.transactions.atomic_writer import TransactionalSender
from connect.clients.transactions.producer import TransactionalProducer
from connect.clock import Deadline
from connect.errors import ConnectError
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, end_offsets, unique
from tests.support.security.rotated import Rotated
from tests.support.waiting import wait_until

AMPLE_S = 60.0
PATIENT = {"session.timeout.ms": "30000", "scheduled.rebalance.max.delay.ms": "500"}
"""A broker of a busy machine may take longer to restart than a short session of a worker."""


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

    works = (link_works, admin_works, sender_works)
    with closing(link), closing(admin):
        for each in works:
            wait_until(each, AMPLE_S, each.__name__)
        rotated.cluster.stop()
        waiting = sender.send_future(topic, b"k", b"sent while no broker answers")
        rotated.rotate()
        rotated.cluster.restart()
        assert waiting.result(AMPLE_S).offset == 1
        for each in works:
            wait_until(each, AMPLE_S, f"{each.__name__} with the new certificates")
        sender.close(Deadline(AMPLE_S))


def test_clients_that_are_made_once_need_no_restart_either(rotated: Rotated) -> None:
    """Neither is made again: a transactional id is claimed once, and the group has the same member
    in the same generation."""
    topic = create_topic(rotated.cluster.bootstrap_servers, name=unique("lasting"))
    partition = TopicPartition(topic, 0)
    props, group, read = rotated.properties, unique("group"), list[bytes | None]()
    owner = TransactionalProducer(props, unique("task"))
    leader = TransactionalSender(props, unique("leader"))
    member = factory.consumer({**props, "group.id": group, "auto.offset.reset": "earliest"})
    assigned = list[object]()
    member.subscribe([topic], on_assign=lambda _, partitions: assigned.append(partitions))

    def consumed(count: int) -> bool:
        read.extend(each.value() for each in member.consume(10, 0.2) if each.error() is None)
        return len(read) >= count

    assert owner.claim(lambda: True)
    leader.claim(Deadline(AMPLE_S))
    try:
        for turn in range(2):
            if turn:
                rotated.rotate_and_restart()
            owner.begin()
            owner.send(topic, None, b"task %d" % turn, lambda *_: None)
            owner.commit(lambda: True)
            leader.write(topic, [(b"k", b"leader %d" % turn)], Deadline(AMPLE_S))
            wait_until(lambda: consumed(2 * turn + 2), AMPLE_S, "the records of both")  # noqa: B023
            member.commit(offsets=member.position([partition]), asynchronous=False)
    finally:
        owner.close()
        leader.close(Deadline(AMPLE_S))
        member.close()
    assert read == [b"task 0", b"leader 0", b"task 1", b"leader 1"]
    assert len(assigned) == 1


def statuses(flow: MirroredFlow) -> int:
    """How many statuses the flow's workers have written."""
    topic = f"mm2-status.{flow.a}.internal"
    return sum(end_offsets(flow.target_servers, topic).values())


@pytest.mark.slow
def test_a_mirror_goes_on_with_the_new_certificates(
    source_cluster: KafkaCluster, rotated: Rotated, logs: Path, tmp_path: Path
) -> None:
    flow, log = MirroredFlow(source_cluster, rotated.cluster), logs / "mirror.log"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(100))
    secure = {f"{flow.b}.{key}": value for key, value in (rotated.properties | PATIENT).items()}
    with running(flow.properties(secure), tmp_path, log) as mirror:
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
