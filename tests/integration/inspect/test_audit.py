"""An audit of real logs says that all is there when it is, and names what is not."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from api.cli.mirror_audit import main
from connect.storage.offset_codec import encode_key
from connectors.mirror.audit import planner
from connectors.mirror.audit.engines import AuditEngine, local_engine
from connectors.mirror.audit.findings import Difference, Kind
from connectors.mirror.audit.planner import AuditPlan, FlowToAudit, make_plan
from connectors.mirror.audit.report import AuditReport, make_report
from connectors.mirror.spark.audit import spark_engine
from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.properties_files import properties_text
from tests.support.records.producing import (
    COMPRESSIONS,
    Record,
    numbered,
    produce,
    produce_transactions,
)
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import create_topic


def flow_of(flow: MirroredFlow, **extra: str) -> FlowToAudit:
    """The connector as dedicated mode would run it."""
    return FlowToAudit(
        {
            "name": "MirrorSourceConnector",
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": flow.a,
            "target.cluster.alias": flow.b,
            "source.cluster.bootstrap.servers": flow.source_servers,
            "target.cluster.bootstrap.servers": flow.target_servers,
            "topics": f"{flow.prefix}.*",
            **{key.replace("__", "."): value for key, value in extra.items()},
        },
        flow.offsets_topic,
        {"bootstrap.servers": flow.target_servers},
    )


def audited(
    flow: FlowToAudit, engine: AuditEngine | None = None, range_bytes: int = 256 * 1024 * 1024
) -> tuple[AuditPlan, AuditReport]:
    # Flows copy heartbeats, too, which other tests may have left on the shared clusters.
    plan = make_plan(flow, flow.properties["topics"], range_bytes)
    report = make_report(plan, (engine or local_engine(1))(plan.setup, plan.ranges), 0.0)
    assert report.complete, [partition.errors for partition in report.partitions]
    return plan, report


def by_hand(flow: MirroredFlow, source: Sequence[Record], target: Sequence[Record]) -> None:
    """A topic and a copy made by hand, batched differently."""
    topic = flow.topic()
    remote = create_topic(flow.target_servers, name=flow.remote(topic))
    produce(flow.source_servers, topic, source, compression="lz4", batch_records=100)
    produce(flow.target_servers, remote, target, compression="zstd", batch_records=70)


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def test_what_our_mirror_copied_is_equal_and_mostly_at_a_glance(
    flow: MirroredFlow, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every compression, transactions that were aborted, and no position behind. The ledger alone
    says the same."""
    plain = {name: flow.topic(name) for name in COMPRESSIONS}
    for name, topic in plain.items():
        produce(flow.source_servers, topic, numbered(600), compression=name, batch_records=100)
    transactional = flow.topic("transactional")
    produce_transactions(
        flow.source_servers,
        transactional,
        [(numbered(40, start=40 * n), n % 3 != 1) for n in range(9)],
    )
    log = tmp_path / "mirror.log"
    committed = {"A.consumer.isolation.level": "read_committed"}
    with running(flow.properties(committed), tmp_path, log) as mirror:
        for topic in plain.values():
            flow.wait_records(topic, [600])
        flow.wait_records(transactional, [240])
        stop_cleanly(mirror, log)

    plan, report = audited(
        flow_of(flow, source__consumer__isolation__level="read_committed"), range_bytes=13_000
    )

    assert report.equal
    assert {p.facts.source[0]: p.total("equal") for p in report.partitions} == {
        **dict.fromkeys(plain.values(), 600),
        transactional: 240,
    }
    assert all(facts.position is not None for facts in plan.facts)
    assert all(partition.total("pending") == 0 for partition in report.partitions)
    assert all(len(partition.results) > 1 for partition in report.partitions), "cut by the map"
    glances = sum(partition.total("batches_at_a_glance") for partition in report.partitions)
    assert glances > 5
    for result in (result for partition in report.partitions for result in partition.results):
        assert result.source_checksum == result.target_checksum != 0

    file = _properties_file(flow, tmp_path, committed)
    found = tmp_path / "found.json"
    ledger = [file, "--mode", "ledger", "--engine", "local", "--processes", "1"]
    ledger += ["--topics", f"{flow.prefix}.*", "--json", str(found)]
    everything = 600 * len(plain) + 240
    assert main([*ledger, "--samples", "3"]) == 0
    told = capfd.readouterr().out
    assert (
        f"; 3 samples were read from the {everything} records that it maps to target offsets"
        in told
    )
    assert "does not prove that the other records are equal" in told
    assert main(ledger) == 0
    told = capfd.readouterr().out
    assert f"The flow is small, so all of it was read: {everything} records are equal" in told
    written = json.loads(found.read_text())
    assert written["whole"]
    assert {each["topic"]: each["accounted"] for each in written["ledger"]} == {
        facts.source[0]: facts.position for facts in plan.facts
    }
    read = [each for p in written["samples"]["partitions"] for each in p["ranges"]]
    assert sum(each["equal"] for each in read) == everything


CHANGED = Record(b"other", b"k500", timestamp_ms=1_700_000_000_500)


def stamped(count: int) -> list[Record]:
    return [
        Record(record.value, record.key, timestamp_ms=1_700_000_000_000 + n, headers=[("h", b"x")])
        for n, record in enumerate(numbered(count))
    ]


@pytest.mark.parametrize("kind", list(Kind))
def test_the_one_record_that_was_tampered_with_is_named(flow: MirroredFlow, kind: Kind) -> None:
    source = stamped(1000)
    target = list(source)
    if kind is Kind.CHANGED:
        target[500] = CHANGED
        expected = Difference(kind, 500, 500)
    elif kind is Kind.MISSING:
        del target[500]
        expected = Difference(kind, 500, None)
    elif kind is Kind.DUPLICATE:
        target.insert(501, source[500])
        expected = Difference(kind, 500, 501)
    elif kind is Kind.EXTRA:
        target.insert(500, CHANGED)
        expected = Difference(kind, None, 500)
    else:
        target[500], target[501] = source[501], source[500]
        expected = Difference(kind, 501, 500)
    by_hand(flow, source, target)

    _, report = audited(flow_of(flow))

    assert [partition.differences for partition in report.partitions] == [[expected]]
    assert not report.equal


def test_spark_finds_what_one_process_finds(flow: MirroredFlow, spark: SparkSession) -> None:
    source = stamped(400)
    by_hand(flow, source, source[:100] + source[101:])
    other = flow.topic("other")
    produce(flow.source_servers, other, numbered(10))

    _, here = audited(flow_of(flow))
    _, there = audited(flow_of(flow), spark_engine(spark))

    assert [each.results for each in there.partitions] == [each.results for each in here.partitions]
    assert there.partitions[0].counts == {"missing": 1}
    assert there.absent == {(other, 0): f"{flow.remote(other)}-0 does not exist"}


def test_ranges_are_cut_by_bytes_that_were_measured(
    flow: MirroredFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "MEASURED_FROM", 1000)
    records = [Record(b"%01000d" % n) for n in range(1000)]
    by_hand(flow, records, records)
    produce(flow.source_servers, f"{flow.prefix}.t", records)
    plan, _ = audited(flow_of(flow))
    # The first half is lz4, the middle is not.
    assert 1000 < plan.facts[0].offset_bytes < 1100
    assert plan.ranges[0].bytes == round(2000 * plan.facts[0].offset_bytes)


def test_an_audit_while_the_mirror_runs_finds_nothing_wrong(
    flow: MirroredFlow, tmp_path: Path
) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(500))
    stop = threading.Event()

    def keep_producing() -> None:
        for n in range(500, 100_000, 50):
            if stop.is_set():
                return
            produce(flow.source_servers, topic, numbered(50, start=n))

    with running(flow.properties(), tmp_path, tmp_path / "mirror.log"):
        flow.wait_records(topic, [500])
        producing = threading.Thread(target=keep_producing)
        producing.start()
        try:
            reports = [audited(flow_of(flow))[1] for _ in range(3)]
        finally:
            stop.set()
            producing.join(60.0)
    assert [report.partitions[0].counts for report in reports] == [{}, {}, {}]
    assert read_partition(flow.target_servers, flow.remote(topic))


def _properties_file(
    flow: MirroredFlow, directory: Path, extra: Mapping[str, str] | None = None
) -> str:
    path = directory / "audited.properties"
    properties = flow.properties(extra)
    path.write_text(properties_text(properties))
    return str(path)


def _store_position(flow: MirroredFlow, topic: str, position: int) -> None:
    """As a mirror that has copied everything before `position`."""
    create_topic(
        flow.target_servers, name=flow.offsets_topic, configs={"cleanup.policy": "compact"}
    )
    key = encode_key("MirrorSourceConnector", {"cluster": flow.a, "partition": 0, "topic": topic})
    produce(
        flow.target_servers, flow.offsets_topic, [Record(b'{"offset":%d}' % (position - 1), key)]
    )


def test_the_command_names_what_is_missing_at_the_end_and_repairs_it(
    flow: MirroredFlow, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = stamped(1000)
    by_hand(flow, source, source[:900])
    topic = flow.topic("middle")
    remote = create_topic(flow.target_servers, name=flow.remote(topic))
    produce(flow.source_servers, topic, source[:20])
    produce(flow.target_servers, remote, source[:7] + source[8:20])
    _store_position(flow, f"{flow.prefix}.t", 1000)
    arguments = [_properties_file(flow, tmp_path), "--engine", "local", "--processes", "1"]
    found = tmp_path / "found.json"

    assert main([*arguments, "--json", str(found)]) == 3
    told = capfd.readouterr().out
    assert "missing\t100\t900 to 999" in told
    assert "missing\t1\t7" in told
    written = json.loads(found.read_text())
    assert [
        difference
        for partition in written["partitions"]
        for each in partition["ranges"]
        for difference in each["differences"]
    ] == [
        {"kind": "missing", "source": 7, "target": None, "records": 1},
        {"kind": "missing", "source": 900, "target": None, "records": 100},
    ]

    ledger = [*arguments, "--mode", "ledger"]
    assert main([*ledger, "--samples", "1"]) == 4, "made by hand, so there is no ledger"
    assert f"{topic}-0: not accounted for: 0 to 19" in capfd.readouterr().out
    assert main(ledger) == 3, "as it is little, it is read"
    assert "101 of the sampled records differ" in capfd.readouterr().out
    assert main([*arguments, "--repair"]) == 3, "what is missing between others stays"
    told = capfd.readouterr().out
    assert f"{flow.prefix}.t-0\t100\t" in told
    assert f"{topic}-0\t0\tthe differences are not at the end" in told
    program = Path(sys.executable).with_name("connect-mirror-audit")
    ended = subprocess.run(
        [program, arguments[0], "--topics", f"{flow.prefix}[.]t"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Complete: 1000 records are equal" in ended.stdout
    ours = read_partition(flow.source_servers, f"{flow.prefix}.t")
    assert contents(read_partition(flow.target_servers, flow.remote(f"{flow.prefix}.t"))) == (
        contents(ours)
    )
    assert main([*arguments, "--flow", "x->y"]) == 78
    assert f"{flow.a}->{flow.b}" in capfd.readouterr().err
