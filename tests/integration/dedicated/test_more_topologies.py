"""Two clusters that stand in for one another, a cluster that feeds three or is fed by three, names
of one's own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.docs.pages import DOCS, blocks
from tests.support.flows.topologies import IDENTITY, RENAMING, Topology
from tests.support.records.groups import commit, wait_group
from tests.support.records.reading import numbers, read_partition
from tests.support.waiting import wait_until

COUNT = 50
SOON_S = 120.0
POLICY = "replication.policy.class"
SYNCED = {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fourth_cluster(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(name="fourth", kafka=kafka, logs=session_logs) as cluster:
        yield cluster


@pytest.fixture
def four(three: Topology, fourth_cluster: KafkaCluster) -> Topology:
    return Topology({**three.clusters, "D": fourth_cluster})


def test_active_active_has_both_sides_records_and_groups_on_both_sides(
    two: Topology, logs: Path, tmp_path: Path
) -> None:
    """Producers write one topic on both clusters; the names do not grow."""
    topic = two.topic("A", "orders", COUNT)
    assert two.topic("B", "orders", COUNT, start=1000) == topic
    groups = {letter: f"{two.prefix}-{letter}" for letter in "AB"}
    flows: dict[str, dict[str, str]] = {"A->B": {}, "B->A": {}}
    with two.running(two.properties(flows, SYNCED), tmp_path, logs / "mirror.log"):
        for here, there in ("AB", "BA"):
            two.wait_records(there, two.copy(topic, here), COUNT)
            commit(two.servers(here), groups[here], {(topic, 0): 20})
        for here, there in ("AB", "BA"):
            wait_group(two.servers(there), groups[here], two.copy(topic, here), 20)
        later = two.topic("A", "later", COUNT)
        two.wait_records("B", two.copy(later, "A"), COUNT)
    assert two.names("A") == {topic, later, two.copy(topic, "B")}
    assert two.names("B") == {topic, two.copy(topic, "A"), two.copy(later, "A")}
    copied = numbers(read_partition(two.servers("A"), two.copy(topic, "B")))
    assert copied == list(range(1000, 1000 + COUNT))


def test_active_passive_goes_over_and_comes_back(two: Topology, logs: Path, tmp_path: Path) -> None:
    """The names stay. The passive side takes over where the group was; then the flow is turned
    round in the file, and the former active side has what was written meanwhile."""
    topic, group = two.topic("A", "orders", COUNT), f"{two.prefix}-group"
    there = two.properties({"A->B": {POLICY: IDENTITY}}, SYNCED)
    with two.running(there, tmp_path / "there", logs / "there.log"):
        two.wait_records("B", topic, COUNT)
        commit(two.servers("A"), group, {(topic, 0): 30})
        wait_group(two.servers("B"), group, topic, 30)
    # B is active now: the group reads on, and new records are written there.
    commit(two.servers("B"), group, {(topic, 0): COUNT})
    new = two.topic("B", "invoices", COUNT)
    back = two.properties({"B->A": {POLICY: IDENTITY, "topics": new}}, SYNCED)
    with two.running(back, tmp_path / "back", logs / "back.log"):
        two.wait_records("A", new, COUNT)
        commit(two.servers("B"), group, {(topic, 0): COUNT, (new, 0): 10})
        wait_group(two.servers("A"), group, new, 10)
    assert two.names("A") == two.names("B") == {topic, new}
    for letter in "AB":
        assert numbers(read_partition(two.servers(letter), topic)) == list(range(COUNT))


def test_one_cluster_feeds_three(four: Topology, logs: Path, tmp_path: Path) -> None:
    """Each target has all records; one that is away keeps no other waiting."""
    topic = four.topic("A", "t", COUNT)
    flows: dict[str, dict[str, str]] = {f"A->{letter}": {} for letter in "BCD"}
    four.clusters["D"].node(1).stop()
    with four.running(four.properties(flows), tmp_path, logs / "mirror.log"):
        for letter in "BC":
            four.wait_records(letter, four.copy(topic, "A"), COUNT)
        four.clusters["D"].node(1).start()
        four.wait_records("D", four.copy(topic, "A"), COUNT)
    for letter in "BCD":
        copied = read_partition(four.servers(letter), four.copy(topic, "A"))
        assert numbers(copied) == list(range(COUNT))


def test_three_clusters_are_gathered_in_one(four: Topology, logs: Path, tmp_path: Path) -> None:
    """Topics and groups of one name in all three arrive side by side, each under its cluster."""
    group = f"{four.prefix}-group"
    starts = {"A": 0, "B": 1000, "C": 2000}
    (topic,) = {four.topic(letter, "orders", COUNT, start) for letter, start in starts.items()}
    flows: dict[str, dict[str, str]] = {f"{letter}->D": {} for letter in starts}
    with four.running(four.properties(flows, SYNCED), tmp_path, logs / "mirror.log"):
        for number, letter in enumerate(starts, start=1):
            four.wait_records("D", four.copy(topic, letter), COUNT)
            commit(four.servers(letter), group, {(topic, 0): 10 * number})
        for number, letter in enumerate(starts, start=1):
            wait_group(four.servers("D"), group, four.copy(topic, letter), 10 * number)
    assert four.names("D") == {four.copy(topic, letter) for letter in starts}
    for letter, start in starts.items():
        assert four.names(letter) == {topic}
        copied = numbers(read_partition(four.servers("D"), four.copy(topic, letter)))
        assert copied == list(range(start, start + COUNT))


def test_a_tenants_prefix_is_added_and_taken_away_on_the_next_hop(
    three: Topology, logs: Path, tmp_path: Path
) -> None:
    """Names on B, the shared cluster, begin with the tenant; on C it is gone again."""
    topic, group = three.topic("A", "orders", COUNT), f"{three.prefix}-group"
    tenant = f"tenant-{three.run}."
    flows = {
        "A->B": {POLICY: RENAMING, "replication.policy.prefix": tenant},
        "B->C": {
            "topics": f"{tenant}.*",
            POLICY: RENAMING,
            "replication.policy.prefix.remove": tenant,
        },
    }
    with three.running(three.properties(flows, SYNCED), tmp_path, logs / "mirror.log"):
        three.wait_records("C", topic, COUNT)
        commit(three.servers("A"), group, {(topic, 0): 20})
        wait_group(three.servers("B"), group, tenant + topic, 20)
        wait_group(three.servers("C"), group, topic, 20)
    assert (three.names("A"), three.names("B"), three.names("C")) == (
        {topic},
        {tenant + topic},
        {topic},
    )
    for letter, name in (("B", tenant + topic), ("C", topic)):
        assert numbers(read_partition(three.servers(letter), name)) == list(range(COUNT))


def test_a_policy_of_ones_own_names_topics_and_groups_follow(
    two: Topology, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class of the how-to page, in both directions: it also says what must not come back."""
    (own,) = [
        block.text
        for block in blocks(DOCS / "how-to/many-clusters.md")
        if block.title == "policies.py"
    ]
    (tmp_path / "policies.py").write_text(own)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    topic, group = two.topic("A", "orders", COUNT), f"{two.prefix}-group"
    copy = f"{topic}_from_{two.alias('A')}"
    properties = two.properties({"A->B": {}, "B->A": {}}, {**SYNCED, POLICY: "policies:AliasLast"})
    with two.running(properties, tmp_path, logs / "mirror.log"):
        two.wait_records("B", copy, COUNT)
        commit(two.servers("A"), group, {(topic, 0): 20})
        wait_group(two.servers("B"), group, copy, 20)
        back = two.topic("B", "back", COUNT)
        two.wait_records("A", f"{back}_from_{two.alias('B')}", COUNT)
    assert two.names("A") == {topic, f"{back}_from_{two.alias('B')}"}
    assert two.names("B") == {back, copy}


def test_a_hangup_applies_the_file_and_a_wrong_file_changes_nothing(
    two: Topology, logs: Path, tmp_path: Path
) -> None:
    topic, log = two.topic("A", "t", COUNT), logs / "mirror.log"
    flows = {"A->B": {"topics": topic}}
    with two.running(two.properties(flows), tmp_path, log) as mirror:
        two.wait_records("B", two.copy(topic, "A"), COUNT)
        later = two.topic("A", "later", COUNT)
        file = tmp_path / "mm2.properties"
        good = file.read_text()
        file.write_text(f"{good}\ntasks.max = many\n")
        mirror.signal(signal.SIGHUP)
        wait_until(lambda: "Ignoring the changes" in log.read_text(), SOON_S, "the refusal")
        file.write_text(good.replace(f"topics = {topic}\n", f"topics = {two.prefix}.*\n"))
        mirror.signal(signal.SIGHUP)
        two.wait_records("B", two.copy(later, "A"), COUNT)
