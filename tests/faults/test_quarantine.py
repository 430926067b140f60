"""One bad record or batch stays one: its partition waits and says why, or puts it aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from connect.clients.librdkafka.admin import Admin
from connectors.mirror.copy.quarantine_topic import HEADER_PREFIX, QuarantineTopic
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.copier.copying import CopyRun
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import ReadRecord, read_partition
from tests.support.records.topics import create_topic, topic_config, unique
from tests.support.security.denying import denied
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0
_HEADER = 61


@pytest.fixture
def source(source_cluster: KafkaCluster) -> str:
    return source_cluster.bootstrap_servers


@pytest.fixture
def target(target_cluster: KafkaCluster) -> str:
    return target_cluster.bootstrap_servers


@pytest.fixture
def quarantine(target: str) -> Iterator[tuple[str, QuarantineTopic]]:
    topic = unique("quarantine")
    servers = {"bootstrap.servers": target}
    made = QuarantineTopic(topic, "north", 1, servers, lambda: Admin(servers))
    yield topic, made
    made.close()


def provenance(record: ReadRecord) -> dict[str, str]:
    return {
        name.removeprefix(HEADER_PREFIX): (value or b"").decode()
        for name, value in record.headers
        if name.startswith(HEADER_PREFIX)
    }


def test_records_the_target_refuses_are_put_aside_in_order(
    source: str, target: str, quarantine: tuple[str, QuarantineTopic]
) -> None:
    """Too large ones; and ones without a key, in the middle of a batch, for a compacted topic."""
    large, large_copy = (
        create_topic(source),
        create_topic(target, configs={"max.message.bytes": "20000"}),
    )
    keyless, keyless_copy = (
        create_topic(source),
        create_topic(target, configs={"cleanup.policy": "compact"}),
    )
    big = Record(b"x" * 50_000, b"big", headers=[("own", b"1"), ("none", None)])
    produce(source, large, [*numbered(30), big, *numbered(30, start=31), big])
    produce(source, keyless, [*numbered(20), Record(b"n"), Record(b"n"), *numbered(20, start=22)])
    run = CopyRun(source, target, quarantine=quarantine[1])
    run.add(large, large_copy)
    run.add(keyless, keyless_copy)
    with run:
        run.wait({(large, 0): 62, (keyless, 0): 42}, TIMEOUT_S)
        wait_until(lambda: run.error(large) is run.error(keyless) is None, TIMEOUT_S, "all is well")

    expected = {large: [30, 61], keyless: [20, 21]}
    for topic, copy, end in ((large, large_copy, 62), (keyless, keyless_copy, 42)):
        kept = [offset for offset in range(end) if offset not in expected[topic]]
        assert [r.value for r in read_partition(target, copy)] == [b"v%d" % n for n in kept]
        assert run.mapping[topic, 0] == {offset: n for n, offset in enumerate(kept)}
        aside = [(a.first, a.last) for a in run.quarantined if a.source == (topic, 0)]
        assert aside == [(offset, offset) for offset in expected[topic]]

    assert topic_config(target, quarantine[0], "max.message.bytes") == "104857600"
    found = read_partition(target, quarantine[0])
    told = sorted((provenance(r)["topic"], int(provenance(r)["offset"])) for r in found)
    assert told == sorted((topic, offset) for topic in expected for offset in expected[topic])
    first = next(r for r in found if provenance(r)["topic"] == large)
    assert (first.key, first.value) == (big.key, big.value)
    assert tuple(first.headers[:2]) == (("own", b"1"), ("none", None))
    said = provenance(first)
    assert (said["cluster"], said["partition"], said["kind"]) == ("north", "0", "record")
    assert int(said["timestamp"]) == first.timestamp_ms
    assert "max.message.bytes" in said["reason"]


def flip(cluster: KafkaCluster, topic: str, batch: int) -> None:
    """Flip a bit in the records of a batch on the broker's disk."""
    (segment,) = Path(cluster.node(1).directory / "data" / f"{topic}-0").glob("*.log")
    with segment.open("r+b") as stream:
        data = stream.read()
        at = 0
        for _ in range(batch):
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        stream.seek(at + _HEADER + 5)
        stream.write(bytes([data[at + _HEADER + 5] ^ 0x10]))


@pytest.mark.parametrize("aside", [False, True], ids=["waits", "put aside"])
def test_a_corrupt_batch_stops_its_partition_only(
    source_cluster: KafkaCluster,
    source: str,
    target: str,
    quarantine: tuple[str, QuarantineTopic],
    aside: bool,
) -> None:
    topic, copy = create_topic(source), create_topic(target)
    other, other_copy = create_topic(source), create_topic(target)
    for n in range(4):
        produce(source, topic, numbered(10, start=10 * n), batch_records=10)
    produce(source, other, numbered(100))
    flip(source_cluster, topic, 2)
    run = CopyRun(source, target, quarantine=quarantine[1] if aside else None)
    run.add(topic, copy)
    run.add(other, other_copy)
    with run:
        run.wait({(other, 0): 100}, TIMEOUT_S)
        if not aside:
            error = wait_until(lambda: run.error(topic), TIMEOUT_S, "it says why")
            assert "batch at source offset 20 is corrupt: it fails its CRC" in str(error)
            run.wait({(topic, 0): 20}, TIMEOUT_S)
            assert run.positions()[topic, 0] == 20
            flip(source_cluster, topic, 2)
        run.wait({(topic, 0): 40}, TIMEOUT_S)
        wait_until(lambda: run.error(topic) is None, TIMEOUT_S, "it is well")
    expected = [n for n in range(40) if not aside or not 20 <= n < 30]
    assert [r.value for r in read_partition(target, copy)] == [b"v%d" % n for n in expected]
    if aside:
        (record,) = read_partition(target, quarantine[0])
        said = provenance(record)
        assert (said["kind"], said["offset"], said["last.offset"]) == ("batch", "20", "29")
        assert int.from_bytes((record.value or b"")[:8], "big") == 20


@pytest.mark.slow
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_is_forbidden_stops_its_partition_only(
    kafka: KafkaRuntime, session_logs: Path, side: str
) -> None:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with KafkaCluster(
        name="forbidding", properties=properties, kafka=kafka, logs=session_logs
    ) as cluster:
        servers = cluster.bootstrap_servers
        topic, copy, other, other_copy = (create_topic(servers) for _ in range(4))
        produce(servers, topic, numbered(50))
        produce(servers, other, numbered(50))
        rule = (topic, AclOperation.READ) if side == "source" else (copy, AclOperation.WRITE)
        run = CopyRun(servers, servers)
        run.add(topic, copy)
        run.add(other, other_copy)
        with ExitStack() as forbidding:
            forbidding.enter_context(denied(servers, *rule))
            with run:
                run.wait({(other, 0): 50}, TIMEOUT_S)
                error = wait_until(lambda: run.error(topic), TIMEOUT_S, "it says why")
                assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
                produce(servers, other, numbered(50, start=50))
                run.wait({(other, 0): 100}, TIMEOUT_S)
                forbidding.close()
                run.wait({(topic, 0): 50}, 3 * TIMEOUT_S)
        assert [r.value for r in read_partition(servers, copy)] == [b"v%d" % n for n in range(50)]
