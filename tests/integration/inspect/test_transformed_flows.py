"""Audit and backfill of a flow that transforms the records of one topic: the one leaves that topic
out and says so, the other refuses it, and both do their work on the topics that travel as bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api.cli import mirror_audit, mirror_backfill
from api.cli.program import EXIT_CONFIG
from deploy.brokers import KafkaCluster
from tests.support.flows.backfills import backfill, properties_file
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.flows.transformed import SMT, transforms
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import end_offset, has_topic

RECORDS = 40
ORDERS = {"orders": {"type": f"{SMT}predicates.TopicNameMatches", "pattern": r".*\.orders"}}
STAGES = {"head": {"type": f"{SMT}InsertHeader", "header": "from", "value.literal": "A"}}
CHANGED = {"head": {**STAGES["head"], "predicate": "orders"}}


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def transformed(flow: MirroredFlow) -> dict[str, str]:
    return flow.properties(transforms(CHANGED, ORDERS))


def two_topics(flow: MirroredFlow) -> tuple[str, str]:
    """One whose records are transformed, and one that travels as bytes."""
    orders, plain = flow.topic("orders"), flow.topic("plain")
    for topic in (orders, plain):
        produce(flow.source_servers, topic, numbered(RECORDS))
    return orders, plain


def test_the_audit_compares_what_is_not_transformed_and_names_the_rest(
    flow: MirroredFlow, tmp_path: Path, logs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    orders, plain = two_topics(flow)
    log, found = logs / "mirror.log", tmp_path / "found.json"
    with running(transformed(flow), tmp_path, log) as mirror:
        flow.wait_records(orders, [RECORDS])
        flow.wait_records(plain, [RECORDS])
        stop_cleanly(mirror, log)
    first = read_partition(flow.target_servers, flow.remote(orders))[0]
    assert first.headers == (("from", b"A"),), "a transformation was at work"
    topics = ("--topics", f"{flow.prefix}.*")
    options = [str(properties_file(transformed(flow), tmp_path)), "--engine", "local", *topics]

    assert mirror_audit.main([*options, "--json", str(found)]) == 0
    told = capfd.readouterr().out
    assert f"{orders}: not compared, because its records are transformed" in told
    assert f"Complete: {RECORDS} records are equal" in told
    written = json.loads(found.read_text())
    assert written["transformed"] == [orders]
    assert [each["topic"] for each in written["partitions"]] == [plain]

    produce(flow.target_servers, flow.remote(plain), numbered(1))
    assert mirror_audit.main(options) == 3, "what is compared is still compared"
    assert mirror_audit.main([*options, "--mode", "ledger"]) in (0, 3)
    told = capfd.readouterr().out
    assert f"{orders}: not compared, because its records are transformed" in told


def test_the_backfill_refuses_a_transformed_topic_and_copies_the_others(
    flow: MirroredFlow, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    orders, plain = two_topics(flow)
    file = str(properties_file(transformed(flow), tmp_path))
    for planned in ([], ["--plan"]):
        assert mirror_backfill.main([file, "--engine", "local", *planned]) == EXIT_CONFIG
        told = " ".join(capfd.readouterr().err.split())
        assert f"records of topic {orders} are transformed" in told
        assert "leave it out with --topics" in told
    assert not has_topic(flow.target_servers, flow.remote(plain)), "nothing was begun"
    done = backfill(transformed(flow), tmp_path, topics=plain)
    assert done.complete
    assert done.records(plain) == RECORDS
    assert_equal_logs(flow, plain)
    assert not has_topic(flow.target_servers, flow.remote(orders))
    assert end_offset(flow.source_servers, orders) == RECORDS
