"""What a log loses in the middle of a transaction, or between two runs, is found and handled as the
user chose; the copy has each record once, and the offset map leads to nothing that is not there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.mirror.config.losses import LossKind, LossPolicy
from connectors.mirror.copy.quarantine_topic import HEADER_PREFIX
from deploy.brokers import KafkaCluster
from tests.support.chaos.logs import is_page, parse_page, read, targets
from tests.support.flows.exactly_once_flow import Flow
from tests.support.flows.exactly_once_mirror import OnceTask, mirror_process
from tests.support.records.losing import create_again, delete_records, delete_topic
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import alter_topic, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
FAIL, REPORT, COPY = LossPolicy.FAIL, LossPolicy.REPORT, LossPolicy.COPY
OPEN_MS = "5000"
"""So long a transaction stays open: what is lost meanwhile, is lost in its middle."""

each_policy = pytest.mark.parametrize(
    "policy",
    [
        pytest.param(policy, id=policy.value, marks=[] if policy is REPORT else pytest.mark.slow)
        for policy in LossPolicy
    ],
)


@pytest.fixture
def flow(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> Iterator[Flow]:
    caplog.set_level(logging.INFO)
    opened = Flow(source_cluster, target_cluster, partitions=1)
    yield opened
    opened.close()


def run(flow: Flow, policy: LossPolicy, **options: str) -> OnceTask:
    flow.mirror.options["mirror.loss.policy"] = policy.value
    return flow.run(**options)


def run_slowly(flow: Flow, policy: LossPolicy) -> OnceTask:
    """Copies 100 records, and has not committed them."""
    flow.write(100)
    task = run(
        flow,
        policy,
        transaction_boundary="interval",
        transaction_boundary_interval_ms=OPEN_MS,
    )
    flow.arrived(100, "read_uncommitted")
    return task


def becomes(flow: Flow, expected: list[int]) -> None:
    """Until this is what was committed."""

    def there() -> bool:
        assert not flow.runs[-1].failure(), flow.runs[-1].failure()
        return len(flow.values(0)) >= len(expected)

    wait_until(there, TIMEOUT_S, f"{len(expected)} records are committed")
    assert flow.values(0) == expected


def error(task: OnceTask) -> str | None:
    return next((each.error for each in task.host.health()), None)


def stands(task: OnceTask, kind: LossKind) -> None:
    text = f"mirror.loss.policy.{kind.value}=fail"
    wait_until(lambda: text in (error(task) or ""), TIMEOUT_S, "it stands still, and says why")


def map_is_true(flow: Flow, *, complete: bool = True) -> None:
    """Every source offset that the offset map knows is that record on the target. `complete`:
    everything that both have is in it."""
    kept = {r.key: r.value for r in read(flow.source, "mm2-offset-map.B.internal") if r.key}
    pages = [
        parse_page(key, value) for key, value in kept.items() if value is not None and is_page(key)
    ]
    found = targets(page for page in pages if page.topic == flow.topic)
    copies = {record.offset: record.value for record in read(flow.target, flow.copy)}
    sources = {record.offset: record.value for record in read(flow.source, flow.topic)}
    wrong = {s: t for s, t in found.items() if s in sources and copies.get(t) != sources[s]}
    assert not wrong
    if complete:
        there = set(copies.values())
        assert not {s for s, value in sources.items() if value in there and s not in found}


@each_policy
def test_retention_that_won_the_race(
    flow: Flow, policy: LossPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    flow.write(100)
    run(flow, policy)
    flow.arrived(100)
    flow.runs[-1].stop()
    flow.write(50, start=100)
    delete_records(flow.source, flow.topic, 130)
    task = run(flow, policy)
    if policy is FAIL:
        stands(task, LossKind.RETENTION)
        assert flow.values(0) == list(range(100))
    else:
        becomes(flow, [*range(100), *range(130, 150)])
    assert f"{flow.topic}-0: the source no longer has offsets 100 to 129" in caplog.text
    task.stop()
    map_is_true(flow)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_created_again_after_the_worker_was_killed(
    flow: Flow, side: str, logs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was known of the logs is stored with the very offset at which the next run begins."""
    flow.mirror.options["mirror.loss.policy"] = COPY.value
    with mirror_process(flow.mirror, logs / "killed.log") as killed:
        for count in range(20, 101, 20):
            flow.write(20, start=count - 20)
            flow.arrived(count)
        killed.kill()
    topic = flow.topic if side == "source" else flow.copy
    servers = flow.source if side == "source" else flow.target
    delete_topic(servers, topic)
    create_again(servers, topic)
    if side == "source":
        # So many that the offset that was next exists again.
        flow.write(150, start=1_000)
    run(flow, COPY)
    becomes(flow, [*range(100), *(range(1_000, 1_150) if side == "source" else ())])
    assert f"the {side}'s topic" in caplog.text


@each_policy
def test_a_source_topic_created_again_in_an_open_transaction(
    flow: Flow, policy: LossPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    task = run_slowly(flow, policy)
    delete_topic(flow.source, flow.topic)
    create_again(flow.source, flow.topic)
    # So many that the offset that was next exists again.
    flow.write(150, start=1_000)
    if policy is FAIL:
        stands(task, LossKind.SOURCE_RECREATED)
        becomes(flow, list(range(100)))
    else:
        becomes(flow, [*range(100), *range(1_000, 1_150)])
    assert f"{flow.topic}-0: the source's topic was deleted and created again" in caplog.text
    task.stop()
    if policy is not FAIL:
        map_is_true(flow)


@each_policy
def test_a_target_topic_created_again_in_an_open_transaction(
    flow: Flow, policy: LossPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    task = run_slowly(flow, policy)
    delete_topic(flow.target, flow.copy)
    flow.write(20, start=100)
    wait_until(lambda: error(task), TIMEOUT_S, "the partition says that it is gone")
    create_again(flow.target, flow.copy)
    if policy is FAIL:
        stands(task, LossKind.TARGET_RECREATED)
    else:
        becomes(flow, list(range(100 if policy is REPORT else 0, 120)))
    assert f"the target's topic {flow.copy} was deleted and created again" in caplog.text
    flow.write(5, start=120)
    if policy is not FAIL:
        becomes(flow, list(range(100 if policy is REPORT else 0, 125)))
    task.stop()
    if policy is not FAIL:
        map_is_true(flow)


@pytest.mark.parametrize("boundary", ["poll", pytest.param("interval", marks=pytest.mark.slow)])
def test_a_record_too_large_goes_to_the_quarantine_topic(flow: Flow, boundary: str) -> None:
    alter_topic(flow.target, flow.copy, {"max.message.bytes": "20000"})
    aside = unique("quarantine")
    big = Record(b"x" * 50_000, b"big")
    produce(flow.source, flow.topic, [*numbered(30), big, *numbered(30, start=31), big])
    task = flow.run(
        mirror_quarantine_topic=aside,
        transaction_boundary=boundary,
        transaction_boundary_interval_ms=OPEN_MS,
    )
    becomes(flow, [*range(30), *range(31, 61)])
    wait_until(lambda: error(task) is None, TIMEOUT_S, "all is well")
    flow.write(40, start=62)
    becomes(flow, [*range(30), *range(31, 61), *range(62, 102)])
    task.stop()
    there = [
        dict(record.headers)[f"{HEADER_PREFIX}offset"]
        for record in read_partition(flow.target, aside)
    ]
    assert there == [b"30", b"61"]
    map_is_true(flow)
