"""Copying goes on through what happens to topics: created late, re-created, trimmed, throttled."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from connect.clients.config.settings import FetchSettings
from connect.clients.wire.connection import open_connection
from connect.clock import Deadline
from deploy.brokers import KafkaCluster
from tests.support.copier.copying import CopyRun, wire
from tests.support.records.losing import delete_records, delete_topic
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.records.streams import NumberedStream, assert_copied
from tests.support.records.topics import alter_topic, create_topic, end_offset, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0


@pytest.fixture
def source(source_cluster: KafkaCluster) -> str:
    return source_cluster.bootstrap_servers


@pytest.fixture
def target(target_cluster: KafkaCluster) -> str:
    return target_cluster.bootstrap_servers


def test_copying_begins_when_the_target_topic_appears(source: str, target: str) -> None:
    late, other = create_topic(source), create_topic(source)
    late_copy, other_copy = unique("late"), create_topic(target)
    for topic in (late, other):
        produce(source, topic, numbered(100))
    run = CopyRun(source, target)
    run.add(late, late_copy)
    run.add(other, other_copy)
    with run:
        run.wait({(other, 0): 100}, TIMEOUT_S)

        def told() -> bool:
            reason = run.error(late) or ""
            return late_copy in reason and "UNKNOWN_TOPIC_OR_PARTITION" in reason

        wait_until(told, TIMEOUT_S, "the partition says why it waits")
        create_topic(target, name=late_copy)
        run.wait({(late, 0): 100}, TIMEOUT_S)
        wait_until(lambda: run.error(late) is None, TIMEOUT_S, "the error is gone")
    assert_copied(run, (source, late), (target, late_copy))


@pytest.mark.parametrize("new_records", [5, 200], ids=["shorter", "longer"])
def test_a_topic_that_is_created_again_is_copied_from_its_beginning(
    source: str, target: str, new_records: int, caplog: pytest.LogCaptureFixture
) -> None:
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(100))
    run = CopyRun(source, target)
    run.add(topic, copy)
    with run, caplog.at_level(logging.ERROR):
        run.wait({(topic, 0): 100}, TIMEOUT_S)
        # Nothing is fetched in between, as it is when the new topic grows within one fetch.
        run.fetching(on=False)
        delete_topic(source, topic)
        wait_until(lambda: run.error(topic), TIMEOUT_S, "the partition says that it is gone")
        create_topic(source, name=topic)
        produce(source, topic, numbered(new_records, start=1_000))
        run.fetching(on=True)
        wait_until(
            lambda: end_offset(target, copy) >= 100 + new_records, TIMEOUT_S, "all is copied"
        )
        run.wait({(topic, 0): new_records}, TIMEOUT_S)
        wait_until(lambda: run.error(topic) is None, TIMEOUT_S, "the error is gone")
    values = [record.value for record in read_partition(target, copy)]
    assert values == [r.value for r in (*numbered(100), *numbered(new_records, start=1_000))]
    assert f"{topic}-0" in caplog.text
    assert "created again" in caplog.text or "re-created" in caplog.text


def test_deleted_records_are_reported_with_their_offsets(
    source: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(100))
    run = CopyRun(source, target)
    run.add(topic, copy, position=10)
    delete_records(source, topic, 60)
    with run, caplog.at_level(logging.ERROR):
        run.wait({(topic, 0): 100}, TIMEOUT_S)
        assert run.lost_records(topic) == 50
        assert "offsets 10 to 59" in caplog.text

        # Again, for a partition that stands still: its record is too large for the target.
        produce(source, topic, [Record(b"x" * 50_000), *numbered(20, start=100)])
        alter_topic(target, copy, {"max.message.bytes": "20000"})
        produce(source, topic, [Record(b"y" * 50_000), *numbered(20, start=120)])
        wait_until(lambda: run.error(topic), TIMEOUT_S, "the partition is blocked")
        position = run.positions()[topic, 0]
        end = end_offset(source, topic)
        delete_records(source, topic, end - 20)
        run.wait({(topic, 0): end}, 2 * TIMEOUT_S)
        assert run.lost_records(topic) == 50 + end - 20 - position
        assert f"offsets {position} to {end - 21}" in caplog.text
        wait_until(lambda: run.error(topic) is None, TIMEOUT_S, "the error is gone")
    after = read_partition(target, copy)
    assert contents(after)[-20:] == contents(read_partition(source, topic))
    assert after[0].value == b"v60"


@contextmanager
def quota(servers: str, **limits: float) -> Iterator[None]:
    """Bytes a second for the copier's client id, in force while the block runs."""
    entity = AlterClientQuotasRequest.EntryData.EntityData(
        entity_type="client-id", entity_name=wire(servers).client_id
    )

    def alter(remove: bool) -> None:
        operation = AlterClientQuotasRequest.EntryData.OpData
        request = AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequest.EntryData(
                    entity=[entity],
                    ops=[operation(key=k, value=v, remove=remove) for k, v in limits.items()],
                )
            ],
            validate_only=False,
        )
        host, port = wire(servers).bootstrap[0]
        connection = open_connection(host, port, wire(servers), Deadline(TIMEOUT_S))
        try:
            response = connection.call(request, Deadline(TIMEOUT_S))
        finally:
            connection.close()
        assert not response.entries[0].error_code, response

    alter(remove=False)
    try:
        yield
    finally:
        alter(remove=True)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_throttled_client_copies_slowly_and_rightly(source: str, target: str, side: str) -> None:
    topic, copy = create_topic(source, partitions=2), create_topic(target, partitions=2)
    for partition in range(2):
        produce(source, topic, numbered(600, size=5_000, partition=partition), batch_records=20)
    # 6 MB at 1 MB a second, of which Kafka lets the first 11 seconds' worth pass at once.
    key = "consumer_byte_rate" if side == "source" else "producer_byte_rate"
    limits = {key: 400_000.0}
    run = CopyRun(source, target, fetch=FetchSettings(max_partition_fetch_bytes=1_000_000))
    for partition in range(2):
        run.add(topic, copy, partition)
    started = time.monotonic()
    with quota(source if side == "source" else target, **limits), run:
        run.wait({(topic, partition): 600 for partition in range(2)}, 60.0)
        took = time.monotonic() - started
    assert took > 2.0, "nothing was throttled: nothing was tested"
    for partition in range(2):
        assert_copied(run, (source, topic), (target, copy), partition)


def wait_for_more(run: CopyRun, key: tuple[str, int]) -> None:
    before = run.positions()[key]
    wait_until(lambda: run.positions()[key] > before, TIMEOUT_S, "copying goes on")


def test_a_pause_loses_no_place(source: str, target: str) -> None:
    topic, copy = create_topic(source, partitions=3), create_topic(target, partitions=3)
    run = CopyRun(source, target)
    for partition in range(3):
        run.add(topic, copy, partition)
    with run:
        with NumberedStream(source, topic, 3, rate=3_000) as stream:
            for _ in range(10):
                wait_for_more(run, (topic, 2))
                run.fetching(on=False)
                run.fetching(on=True)
        ends = {(topic, p): end_offset(source, topic, p) for p in stream.counts}
        run.wait(ends, TIMEOUT_S)
    for partition in range(3):
        assert_copied(run, (source, topic), (target, copy), partition)
