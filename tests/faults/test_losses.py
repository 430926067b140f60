"""What either log lost is found, told with its offsets, and handled as the user chose."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from connectors.mirror.config.losses import LossKind, LossPolicies, LossPolicy
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.copier.copying import CopyRun
from tests.support.records.losing import delete_records, delete_topic
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, end_offset
from tests.support.records.unclean import doubled, elect_uncleanly, in_sync, unclean_cluster
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0
FAIL, REPORT, COPY = LossPolicy.FAIL, LossPolicy.REPORT, LossPolicy.COPY


@pytest.fixture
def source(source_cluster: KafkaCluster) -> str:
    return source_cluster.bootstrap_servers


@pytest.fixture
def target(target_cluster: KafkaCluster) -> str:
    return target_cluster.bootstrap_servers


def copying(
    source: str, target: str, policy: LossPolicy, *, position: int = 0
) -> tuple[CopyRun, str, str]:
    """A run that copies one topic of 100 records, not begun yet; and both topics."""
    topic, copy = create_topic(source), create_topic(target)
    produce(source, topic, numbered(100))
    run = CopyRun(source, target, losses=LossPolicies(policy))
    run.add(topic, copy, position=position)
    return run, topic, copy


def values(servers: str, topic: str) -> list[int]:
    return numbers(read_partition(servers, topic))


def stands(run: CopyRun, topic: str, kind: LossKind) -> None:
    """Wait until the partition stands still because of this."""
    wait_until(lambda: run.losses, TIMEOUT_S, "it is noticed")
    # It may still say that the topic is not there.
    text = f"mirror.loss.policy.{kind.value}=fail"
    wait_until(lambda: text in (run.error(topic) or ""), TIMEOUT_S, "the partition says why")
    (loss,) = run.losses
    assert (loss.kind, loss.resume) == (kind, None)


@pytest.mark.parametrize("policy", LossPolicy)
def test_retention_that_won_the_race(source: str, target: str, policy: LossPolicy) -> None:
    run, topic, copy = copying(source, target, policy, position=10)
    delete_records(source, topic, 60)
    with run:
        if policy is FAIL:
            stands(run, topic, LossKind.RETENTION)
        else:
            run.wait({(topic, 0): 100}, TIMEOUT_S)
    (loss,) = run.losses
    assert (loss.kind, loss.first, loss.end) == (LossKind.RETENTION, 10, 60)
    assert values(target, copy) == ([] if policy is FAIL else list(range(60, 100)))


@pytest.mark.parametrize("policy", LossPolicy)
def test_a_source_topic_created_again(source: str, target: str, policy: LossPolicy) -> None:
    run, topic, copy = copying(source, target, policy)
    with run:
        run.wait({(topic, 0): 100}, TIMEOUT_S)
        delete_topic(source, topic)
        wait_until(lambda: run.error(topic), TIMEOUT_S, "the partition says that it is gone")
        create_topic(source, name=topic)
        produce(source, topic, numbered(150, start=1_000))
        if policy is FAIL:
            stands(run, topic, LossKind.SOURCE_RECREATED)
        else:
            wait_until(lambda: end_offset(target, copy) >= 250, TIMEOUT_S, "all is copied")
    (loss,) = run.losses
    assert (loss.kind, loss.first, loss.end) == (LossKind.SOURCE_RECREATED, 0, 100)
    new = [] if policy is FAIL else list(range(1_000, 1_150))
    assert values(target, copy) == [*range(100), *new]


@pytest.mark.parametrize("policy", LossPolicy)
def test_a_target_topic_created_again(source: str, target: str, policy: LossPolicy) -> None:
    run, topic, copy = copying(source, target, policy)
    with run:
        run.wait({(topic, 0): 100}, TIMEOUT_S)
        delete_topic(target, copy)
        produce(source, topic, numbered(20, start=100))
        wait_until(lambda: run.error(topic), TIMEOUT_S, "the partition says that it is gone")
        create_topic(target, name=copy)
        if policy is FAIL:
            stands(run, topic, LossKind.TARGET_RECREATED)
        else:
            run.wait({(topic, 0): 120}, TIMEOUT_S)
    (loss,) = run.losses
    assert (loss.kind, loss.first, loss.end) == (LossKind.TARGET_RECREATED, 0, 100)
    first = {FAIL: 120, REPORT: 100, COPY: 0}[policy]
    assert values(target, copy) == list(range(first, 120))


@pytest.mark.parametrize("policy", LossPolicy)
def test_a_target_topic_created_again_unseen(source: str, target: str, policy: LossPolicy) -> None:
    """Nothing is written while the topic is not there, and no metadata tells: the next batch lands
    before the end of what was acknowledged."""
    run, topic, copy = copying(source, target, policy)
    with run:
        run.wait({(topic, 0): 100}, TIMEOUT_S)
        delete_topic(target, copy)
        create_topic(target, name=copy)
        produce(source, topic, numbered(20, start=100))
        wait_until(lambda: run.losses, TIMEOUT_S, "it was noticed")
        if policy is FAIL:
            stands(run, topic, run.losses[0].kind)
        else:
            run.wait({(topic, 0): 120}, TIMEOUT_S)
    assert run.losses[0].kind in (LossKind.TARGET_RECREATED, LossKind.TARGET_LOSS)
    assert (run.losses[0].first, run.losses[0].end) == (0, 100)
    found = values(target, copy)
    if policy is COPY:
        assert found[-120:] == list(range(120))
    elif policy is REPORT:
        assert found == list(range(100, 120))


@pytest.fixture(scope="module")
def unclean(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    with unclean_cluster(kafka, session_logs) as made:
        yield made


@pytest.mark.slow
def test_truncation_after_an_unclean_election(
    unclean: KafkaCluster, source: str, target: str
) -> None:
    """Of a source for each policy, whose log is longer again when the copier looks; of one whose
    log is still shorter; and of a target for each policy. Node 3 is left without offsets 50 on."""
    servers = unclean.bootstrap_servers
    runs = {policy: CopyRun(servers, target, losses=LossPolicies(policy)) for policy in LossPolicy}
    sources, copies = ({p: doubled(unclean) for p in LossPolicy} for _ in range(2))
    results = {policy: create_topic(target) for policy in LossPolicy}
    feeds = {policy: create_topic(source) for policy in LossPolicy}
    short, short_copy = doubled(unclean), create_topic(target)
    targets = {p: CopyRun(source, servers, losses=LossPolicies(p)) for p in LossPolicy}
    for policy in LossPolicy:
        runs[policy].add(sources[policy], results[policy])
        targets[policy].add(feeds[policy], copies[policy])
    runs[REPORT].add(short, short_copy)
    every = [*sources.values(), *copies.values(), short]

    with contextlib.ExitStack() as stack:
        for run in (*runs.values(), *targets.values()):
            stack.enter_context(run)

        def feed(first: int, count: int) -> None:
            for topic in sources.values():
                produce(servers, topic, numbered(count, start=first))
            for topic in feeds.values():
                produce(source, topic, numbered(count, start=first))

        def copied(end: int) -> None:
            for policy in LossPolicy:
                runs[policy].wait({(sources[policy], 0): end}, TIMEOUT_S)
                targets[policy].wait({(feeds[policy], 0): end}, TIMEOUT_S)

        feed(0, 50)
        produce(servers, short, numbered(50))
        copied(50)
        unclean.node(3).stop()
        in_sync(unclean, every, {2})
        feed(50, 30)
        produce(servers, short, numbered(30, start=50))
        copied(80)
        runs[REPORT].wait({(short, 0): 80}, TIMEOUT_S)
        for run in runs.values():
            run.fetching(on=False)
        unclean.node(2).kill()
        unclean.node(3).start()
        elect_uncleanly(unclean, every, 3)
        for topic in sources.values():
            produce(servers, topic, numbered(100, start=1_000))
        for run in runs.values():
            run.fetching(on=True)
        for policy in LossPolicy:
            for run in (runs[policy], targets[policy]):
                wait_until(partial(bool, run.losses), TIMEOUT_S, f"{policy}: it is noticed")
        wait_until(lambda: len(runs[REPORT].losses) == 2, TIMEOUT_S, "both sources")
        for topic in feeds.values():
            produce(source, topic, numbered(10, start=80))
        for policy in (REPORT, COPY):
            runs[policy].wait({(sources[policy], 0): 150}, TIMEOUT_S)
            targets[policy].wait({(feeds[policy], 0): 90}, TIMEOUT_S)
        produce(servers, short, numbered(5, start=2_000))
        runs[REPORT].wait({(short, 0): 55}, TIMEOUT_S)
        stands(runs[FAIL], sources[FAIL], LossKind.TRUNCATION)
        stands(targets[FAIL], feeds[FAIL], LossKind.TARGET_LOSS)

    for run in runs.values():
        assert {(x.kind, x.first, x.end) for x in run.losses} == {(LossKind.TRUNCATION, 50, 80)}
    for run in targets.values():
        (loss,) = run.losses
        assert (loss.kind, loss.first, loss.end) == (LossKind.TARGET_LOSS, 50, 80)
    before, new = list(range(80)), list(range(1_000, 1_100))
    assert values(target, results[FAIL]) == before
    assert values(target, results[REPORT]) == [*before, *new]
    assert values(target, results[COPY]) == [*before, *range(50), *new]
    assert values(target, short_copy) == [*before, *range(2_000, 2_005)]
    assert values(servers, copies[FAIL]) == list(range(50))
    assert values(servers, copies[REPORT]) == [*range(50), *range(80, 90)]
    again = values(servers, copies[COPY])
    assert again[:50] == list(range(50))
    assert again[-40:] == list(range(50, 90))
