"""The audit of copies that Java's MirrorMaker 2 made: batched anew, and without an offset map."""

from __future__ import annotations

from pathlib import Path

from connectors.mirror.audit.engines import local_engine
from connectors.mirror.audit.findings import Difference, Kind
from connectors.mirror.audit.planner import FlowToAudit, make_plan
from connectors.mirror.audit.report import AuditReport, make_report
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow
from tests.support.flows.mirrors import java_mirror_maker
from tests.support.records.producing import COMPRESSIONS, Record, numbered, produce


def _audit(flow: MirroredFlow) -> AuditReport:
    plan = make_plan(
        FlowToAudit(
            {
                "name": "MirrorSourceConnector",
                "connector.class": "MirrorSourceConnector",
                "source.cluster.alias": flow.a,
                "target.cluster.alias": flow.b,
                "source.cluster.bootstrap.servers": flow.source_servers,
                "target.cluster.bootstrap.servers": flow.target_servers,
                "topics": f"{flow.prefix}.*",
            },
            flow.offsets_topic,
            {"bootstrap.servers": flow.target_servers},
        ),
        f"{flow.prefix}.*",
        5_000_000,
    )
    report = make_report(plan, local_engine(1)(plan.setup, plan.ranges), 0.0)
    assert report.complete
    return report


def test_a_copy_by_java_is_found_equal_and_its_flaw_is_named(
    kafka: KafkaRuntime,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topics = {name: flow.topic(name) for name in COMPRESSIONS}
    for name, topic in topics.items():
        produce(flow.source_servers, topic, numbered(500), compression=name, batch_records=70)
    with java_mirror_maker(kafka, flow.properties(), tmp_path, logs / "java-audit.log") as mirror:
        for topic in topics.values():
            flow.wait_records(topic, [500])
        mirror.stop(30)

    report = _audit(flow)
    assert report.equal
    assert [partition.total("equal") for partition in report.partitions] == [500] * 5
    assert [partition.facts.position for partition in report.partitions] == [500] * 5, "as stored"

    tampered = topics["gzip"]
    produce(flow.target_servers, flow.remote(tampered), [Record(b"foreign")])
    report = _audit(flow)
    found = {partition.facts.source[0]: partition.differences for partition in report.partitions}
    assert found.pop(tampered) == [Difference(Kind.EXTRA, None, 500)]
    assert not any(found.values())
