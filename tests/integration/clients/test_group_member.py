"""Members of a Connect group on real brokers: joining, leaving, dying; the coordinator's death."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from connect.clients.groups.member import GroupTimeouts
from connect.clock import Deadline
from connect.errors import AuthenticationFailed, BrokerError, ConfigError
from connect.runtime.distributed.assignment import ConfigView
from deploy.brokers import KafkaCluster, KafkaRuntime
from deploy.brokers.ports import LOOPBACK
from tests.support.records.topics import unique
from tests.support.security.certificates import Authority
from tests.support.waiting import wait_until
from tests.support.workers.members import QUICK, TestMember

Join = Callable[..., TestMember]


SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
CONFIG = ConfigView(7, {"c": 5})


class Group:
    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.name = unique("connect-group")
        self.config = CONFIG
        self.members: list[TestMember] = []

    def join(self, name: str, **options: object) -> TestMember:
        member = TestMember(self.servers, self.name, name, lambda: self.config, **options)  # type: ignore[arg-type]
        self.members.append(member)
        return member.start()

    def balanced(self, *members: TestMember) -> bool:
        running = [one for member in members for one in member.running]
        wanted = sorted([("c", -1), *(("c", task) for task in range(5))])
        loads = [sum(task >= 0 for _, task in member.running) for member in members]
        return sorted(running) == wanted and max(loads) - min(loads) <= 1

    def settle(self, *members: TestMember, timeout_s: float = 60.0) -> None:
        def check() -> bool:
            for member in members:
                assert member.failure is None, member.failure
            return self.balanced(*members)

        wait_until(check, timeout_s, f"balance of {len(members)} members")

    def close(self) -> None:
        for member in self.members:
            member.stop()


@pytest.fixture
def group(source_cluster: KafkaCluster) -> Iterator[Group]:
    before = set(threading.enumerate())
    group = Group(source_cluster.bootstrap_servers)
    yield group
    group.close()
    assert set(threading.enumerate()) <= before, "threads were left behind"


def test_three_members_share_the_work_and_one_that_leaves_gives_its_share_back(
    group: Group,
) -> None:
    one = group.join("one")
    group.settle(one)
    two, three = group.join("two"), group.join("three")
    group.settle(one, two, three)
    assert {member.protocol for member in group.members} == {"sessioned"}
    assert {member.assignment.leader_url for member in group.members if member.assignment} == {
        one.url
    }
    assert len({member.member.member_id for member in group.members}) == 3
    assert {member.member.generation for member in group.members} == {one.member.generation}
    generation = one.member.generation
    three.stop()
    group.settle(one, two, timeout_s=5.0)
    assert one.member.generation > generation


def test_an_owner_can_wait_until_it_is_in_the_group(group: Group) -> None:
    one = TestMember(group.servers, group.name, "one", lambda: group.config)
    group.members.append(one)
    assert one.member.ensure_active(30)
    assert group.balanced(one)
    events = list(one.events)
    assert one.member.ensure_active(30)
    assert one.events == events
    one.member.leave("the test wants it")
    assert (one.member.member_id, one.member.generation) == ("", -1)
    assert one.member.ensure_active(30)
    assert one.member.generation > 0


def test_callbacks_run_on_the_owners_thread(group: Group) -> None:
    one = group.join("one")
    group.settle(one)
    assert one.threads == {"owner-one"}


def test_the_group_falls_back_to_what_all_members_speak(group: Group) -> None:
    one = group.join("one")
    group.settle(one)
    eager = group.join("eager", connect_protocol="eager")
    group.settle(one, eager)
    assert {member.protocol for member in group.members} == {"default"}


def test_a_request_to_rejoin_leads_to_a_new_generation(group: Group) -> None:
    one = group.join("one")
    group.settle(one)
    generation = one.member.generation
    one.member.request_rejoin("the test wants it")
    one.until(lambda: one.member.generation > generation, "a new generation")
    group.settle(one)


def test_a_request_during_a_rebalance_is_served_after_it(group: Group) -> None:
    one = group.join("one")
    group.settle(one)
    generation = one.member.generation
    asked = threading.Event()
    lead = one.perform_assignment

    def lead_and_ask(*arguments: object) -> object:
        if not asked.is_set():
            asked.set()
            one.member.request_rejoin("something changed meanwhile")
        return lead(*arguments)  # type: ignore[arg-type]

    one.perform_assignment = lead_and_ask  # type: ignore[method-assign,assignment]
    one.member.request_rejoin("begin")
    one.until(lambda: one.member.generation >= generation + 2, "two more generations")


def test_an_owner_that_is_busy_stays_in_the_group(group: Group) -> None:
    one, two = group.join("one"), group.join("two")
    group.settle(one, two)
    generation = two.member.generation
    one.hold.clear()
    # Longer than the session timeout: heartbeats go on without the owner.
    assert not two.happens(lambda: two.member.generation != generation, within_s=7.0)
    one.hold.set()
    group.settle(one, two)


def test_an_owner_that_is_busy_for_too_long_leaves_and_comes_back(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    slow = GroupTimeouts(QUICK.session_ms, 2_000, QUICK.heartbeat_ms)
    one = group.join("one")
    two = group.join("two", timeouts=slow)
    group.settle(one, two)
    two.hold.clear()
    group.settle(one, timeout_s=20)
    assert "longer than rebalance.timeout.ms (2000)" in caplog.text
    assert "two is held up" in caplog.text
    two.hold.set()
    group.settle(one, two)


def test_a_member_that_dies_is_missed_after_its_session(group: Group) -> None:
    one, two = group.join("one"), group.join("two")
    group.settle(one, two)
    two.die()
    group.settle(one, timeout_s=20)


def test_the_wrong_group_is_refused_and_can_be_tried_again(group: Group) -> None:
    one = TestMember(group.servers, "", "nobody", lambda: group.config)
    try:
        for _ in range(2):
            with pytest.raises(BrokerError, match="INVALID_GROUP_ID"):
                one.member.ensure_active(30)
    finally:
        one.stop()


def test_a_heartbeat_interval_as_long_as_the_session_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigError, match=r"heartbeat\.interval\.ms"):
        TestMember("localhost:1", "g", "one", lambda: CONFIG, timeouts=GroupTimeouts(100, 100, 100))


def test_without_brokers_polls_end_in_time_and_closing_ends_everything() -> None:
    before = set(threading.enumerate())
    one = TestMember("localhost:1", "g", "one", lambda: CONFIG)
    assert not one.member.ensure_active(0.5)
    one.member.wakeup()
    deadline = Deadline(20)
    one.member.poll(30)
    assert not deadline.expired()
    one.stop()
    one.stop()
    assert set(threading.enumerate()) <= before


@pytest.fixture(scope="module")
def secure(kafka: KafkaRuntime, session_logs: Path) -> Iterator[tuple[KafkaCluster, Authority]]:
    authority = Authority()
    key, certificate = authority.issue("broker", LOOPBACK)
    prefix = "listener.name.secure"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    properties = {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"{prefix}.plain.sasl.jaas.config": f'{module} required user_ali="open-sesame";',
        f"{prefix}.ssl.keystore.type": "PEM",
        f"{prefix}.ssl.keystore.key": key,
        f"{prefix}.ssl.keystore.certificate.chain": certificate,
    }
    with KafkaCluster(
        name="secure-group",
        listeners={"SECURE": "SASL_SSL"},
        properties=properties,
        kafka=kafka,
        logs=session_logs,
    ) as cluster:
        yield cluster, authority


def secure_member(
    secure: tuple[KafkaCluster, Authority], password: str, user: str = "ali", scram: bool = False
) -> TestMember:
    cluster, authority = secure
    module = SCRAM_MODULE if scram else "org.apache.kafka.common.security.plain.PlainLoginModule"
    return TestMember(
        cluster.bootstrap("SECURE"),
        "secure",
        "one",
        lambda: CONFIG,
        properties={
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256" if scram else "PLAIN",
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority.pem,
        },
    )


def test_members_join_with_tls_and_a_password(secure: tuple[KafkaCluster, Authority]) -> None:
    one = secure_member(secure, "open-sesame").start()
    try:
        one.until(lambda: len(one.running) == 6, "all the work")
    finally:
        one.stop()


def test_a_member_whose_name_has_reserved_characters_joins(
    secure: tuple[KafkaCluster, Authority],
) -> None:
    """SCRAM escapes them."""
    admin = AdminClient({"bootstrap.servers": secure[0].bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("a,b=c", info, b"open-sesame")
    admin.alter_user_scram_credentials([change])["a,b=c"].result(30)
    one = secure_member(secure, "open-sesame", "a,b=c", scram=True).start()
    try:
        one.until(lambda: len(one.running) == 6, "all the work")
    finally:
        one.stop()


def test_a_wrong_password_is_told_at_once_and_not_repeated_in_the_error(
    secure: tuple[KafkaCluster, Authority],
) -> None:
    one = secure_member(secure, "close-sesame")
    try:
        for _ in range(2):
            with pytest.raises(AuthenticationFailed) as refused:
                one.member.ensure_active(30)
            assert "close-sesame" not in str(refused.value)
    finally:
        one.stop()


@pytest.fixture
def alone(kafka: KafkaRuntime, logs: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(name="alone", kafka=kafka, logs=logs) as cluster:
        yield cluster


def test_a_restarted_coordinator_finds_its_members_again(alone: KafkaCluster) -> None:
    group = Group(alone.bootstrap_servers)
    try:
        one, two = group.join("one"), group.join("two")
        group.settle(one, two)
        alone.stop()
        one.until(lambda: "lost" in one.events, "giving up its work")
        two.until(lambda: "lost" in two.events, "giving up its work")
        alone.restart()
        group.settle(one, two)
    finally:
        group.close()


def test_work_is_given_up_before_the_session_of_a_silent_coordinator_is_long_over(
    alone: KafkaCluster,
) -> None:
    group = Group(alone.bootstrap_servers)
    try:
        one = group.join("one")
        group.settle(one)
        alone.node(1).pause()
        session_s = QUICK.session_ms / 1000
        one.until(lambda: "lost" in one.events, "giving up its work", session_s + 1.5)
        assert one.running == ()
        alone.node(1).resume()
        group.settle(one)
    finally:
        group.close()
