"""Two flows that share a cluster: of two sources into one target, and of one source into two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deploy.brokers import KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.groups import checkpoints, commit
from tests.support.records.groups import committed as committed_offsets
from tests.support.records.losing import history_rows
from tests.support.records.offset_records import heartbeats, offset_map, offset_syncs
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.served import health_of, metric, page
from tests.support.waiting import wait_until

COUNT = 200
SOON_S = 60.0
COMMON = {
    "tasks.max": "1",
    "A.consumer.isolation.level": "read_committed",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.heartbeats.enabled": "true",
    "offset.lag.max": "0",
}
ONCE = {"B.exactly.once.source.support": "enabled"}


@pytest.fixture(scope="module")
def third_cluster(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(name="third", kafka=kafka, logs=session_logs) as cluster:
        yield cluster


@pytest.fixture
def listeners() -> Iterator[list[str]]:
    """Two addresses that nobody else takes."""
    with ExitStack() as stack:
        leases = [PortLease(cache_directory() / "ports") for _ in range(2)]
        for lease in leases:
            stack.callback(lease.close)
        yield [f"http://{LOOPBACK}:{lease.port}" for lease in leases]


def assert_own_books(flow: MirroredFlow, topics: set[str]) -> None:
    """What the flow wrote down is about its own topics, and true."""
    assert {topic for topic, _ in flow.stored_offsets()} == topics
    for _, record in flow.stored_records():
        key = (record.key or b"").decode()
        assert '"MirrorSourceConnector"' not in key or f'"cluster":"{flow.a}"' in key
    syncs = offset_syncs(flow.source_servers, flow.syncs_topic)
    assert {sync.topic for sync in syncs} == topics
    for topic in topics:
        there = places(flow, topic)
        assert {(s.upstream_offset, s.downstream_offset) for s in syncs if s.topic == topic} <= set(
            there.items()
        )
        translate = offset_map(flow.source_servers, flow.map_topic, topic)
        assert {offset: translate.downstream(offset) for offset in there} == there


def assert_no_series_twice(listener: str) -> None:
    """In each family of names, no two samples have one name and the same labels."""
    for family in "ABC":
        series = Counter(
            (sample.name, *sorted(sample.labels.items()))
            for each in text_string_to_metric_families(page(listener, f"/metrics?family={family}"))
            for sample in each.samples
        )
        assert not [each for each, times in series.items() if times > 1]


def copied_by(listener: str) -> dict[str, set[str]]:
    """Flow -> the partitions that it copies, where there are any."""
    found = {
        each["flow"]: {p["name"] for task in each["tasks"] for p in task["partitions"]}
        for each in health_of(listener)["connectors"]
        if each["name"] == "MirrorSourceConnector"
    }
    return {flow: names for flow, names in found.items() if names}


def places(flow: MirroredFlow, topic: str) -> dict[int, int]:
    """Source offset -> target offset, by reading both logs; the copy has the source's records."""
    before = read_partition(flow.source_servers, topic)
    after = read_partition(flow.target_servers, flow.remote(topic), isolation="read_committed")
    assert contents(after) == contents(before)
    return {b.offset: a.offset for b, a in zip(before, after, strict=True)}


def wait_synced(flow: MirroredFlow, group: str, topics: Iterable[str], position: int) -> None:
    """Until the group has the offsets of these copies that it has on the source. Its first ones may
    come before the newest part of the map, and be of an earlier record."""

    def is_exact(topic: str) -> bool:
        copies = read_partition(flow.target_servers, flow.remote(topic), isolation="read_committed")
        if len(copies) < len(read_partition(flow.source_servers, topic)):
            return False  # the last transaction is still open
        found = committed_offsets(flow.target_servers, group)
        return found.get((flow.remote(topic), 0)) == places(flow, topic)[position]

    for topic in topics:
        wait_until(partial(is_exact, topic), SOON_S, f"offset of {group} in the copy of {topic}")


def assert_in_history(url: str, flow: MirroredFlow, topics: Iterable[str], records: int) -> None:
    """The flow's ranges are of these topics, and have so many records."""
    rows = [
        row
        for row in history_rows(url, "mirror_ranges")
        if (row["source"], row["target"]) == (flow.a, flow.b)
    ]
    assert {row["target_topic"] for row in rows} == {flow.remote(topic) for topic in topics}
    assert sum(int(str(row["records"])) for row in rows) == records


@pytest.mark.slow
def test_two_sources_into_one_target_one_of_them_exactly_once(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    third_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listeners: list[str],
) -> None:
    """Topics and a group have the same names on both; two processes write at the same time."""
    first = MirroredFlow(source_cluster, third_cluster)
    flows = [first, MirroredFlow(target_cluster, third_cluster, prefix=first.prefix, b=first.b)]
    url = f"sqlite:///{tmp_path / 'history.db'}"
    group = f"{first.prefix}-group"
    topic = f"{first.prefix}.t"
    for number, flow in enumerate(flows):
        flow.topic()
        produce(flow.source_servers, topic, numbered(COUNT, start=10_000 * number))
    with ExitStack() as stack:
        mirrors = []
        for number, (flow, once) in enumerate(zip(flows, (ONCE, {}), strict=True)):
            served = {"metrics.listener": listeners[number], "mirror.history.url": url}
            properties = flow.properties({**COMMON, **served, **once})
            log = logs / f"mirror-{number}.log"
            mirror = stack.enter_context(running(properties, tmp_path / str(number), log))
            mirrors.append((mirror, log))
        for number, flow in enumerate(flows):
            produce(flow.source_servers, topic, numbered(COUNT, start=10_000 * number + COUNT))
        for number, flow in enumerate(flows):
            flow.wait_records(topic, [2 * COUNT])
            commit(flow.source_servers, group, {(topic, 0): COUNT + 10 * number})
        for number, flow in enumerate(flows):
            wait_synced(flow, group, {topic}, COUNT + 10 * number)
        for listener, flow in zip(listeners, flows, strict=True):
            assert_no_series_twice(listener)
            name = "kafka_connect_mirror_mirrorsourceconnector_record_count"
            ((labels, _),) = metric(listener, name, topic=flow.remote(topic))
            assert (labels["source"], labels["target"]) == (flow.a, flow.b)
            assert copied_by(listener) == {f"{flow.a}->{flow.b}": {f"{topic}-0"}}
        for mirror, log in mirrors:
            stop_cleanly(mirror, log)

    found = committed_offsets(first.target_servers, group)
    for number, flow in enumerate(flows):
        assert_own_books(flow, {topic})
        assert found[flow.remote(topic), 0] == places(flow, topic)[COUNT + 10 * number]
        assert {each.topic for each in checkpoints(flow)} == {flow.remote(topic)}
        assert heartbeats(flow.target_servers, "heartbeats", flow.a, flow.b)
        assert_in_history(url, flow, {topic}, 2 * COUNT)


@pytest.mark.slow
def test_one_source_into_two_targets_in_one_process(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    third_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listeners: list[str],
) -> None:
    """One writes exactly once, and one does not; a topic goes to both, and one to each."""
    log, listener = logs / "mirror.log", listeners[0]
    near = MirroredFlow(source_cluster, target_cluster)
    far = MirroredFlow(source_cluster, third_cluster, prefix=near.prefix, a=near.a)
    url = f"sqlite:///{tmp_path / 'history.db'}"
    both, one, other = (near.topic(name) for name in ("both", "near", "far"))
    flows = {near: {both, one}, far: {both, other}}
    group = f"{near.prefix}-group"
    for number, topic in enumerate((both, one, other)):
        produce(near.source_servers, topic, numbered(COUNT, start=10_000 * number))
    properties = {
        **near.properties(COMMON),
        **far.properties({**COMMON, **ONCE}),
        "clusters": f"{near.a}, {near.b}, {far.b}",
        "metrics.listener": listener,
        "mirror.history.url": url,
        **{
            f"{flow.a}->{flow.b}.topics": ",".join(sorted(topics)) for flow, topics in flows.items()
        },
    }
    with running(properties, tmp_path, log) as mirror:
        for flow, topics in flows.items():
            for topic in topics:
                flow.wait_records(topic, [COUNT])
        for topic in (both, one, other):
            commit(near.source_servers, group, {(topic, 0): COUNT // 2})
        for flow, topics in flows.items():
            wait_synced(flow, group, topics, COUNT // 2)
        assert_no_series_twice(listener)
        name = "kafka_connect_mirror_mirrorsourceconnector_record_count"
        counts = {
            (flow.b, flow.remote(topic)): COUNT
            for flow, topics in flows.items()
            for topic in topics
        }

        def shown() -> dict[tuple[str, str], float]:
            found = metric(listener, name, source=near.a)
            return {(labels["target"], labels["topic"]): value for labels, value in found}

        wait_until(lambda: shown() == counts, SOON_S, "the counts")
        assert copied_by(listener) == {
            f"{flow.a}->{flow.b}": {f"{topic}-0" for topic in topics}
            for flow, topics in flows.items()
        }
        stop_cleanly(mirror, log)
    for flow, topics in flows.items():
        assert_own_books(flow, topics)
        assert {each.topic for each in checkpoints(flow)} == {flow.remote(t) for t in topics}
        found = committed_offsets(flow.target_servers, group)
        assert found.keys() == {(flow.remote(topic), 0) for topic in topics}
        assert heartbeats(flow.target_servers, "heartbeats", flow.a, flow.b)
        assert_in_history(url, flow, topics, COUNT * len(topics))
