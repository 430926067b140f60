"""Flows between three clusters: chains, meshes, loops, and names."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.flows.topologies import IDENTITY, RENAMING, Topology
from tests.support.properties_files import properties_text
from tests.support.records.groups import commit, wait_group
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, end_offset
from tests.support.served import health_of
from tests.support.waiting import wait_until

COUNT = 50
SOON_S = 120.0
POLICY = "replication.policy.class"


def source_connector(listener: str) -> dict[str, object]:
    (found,) = [
        each
        for each in health_of(listener)["connectors"]
        if each["name"] == "MirrorSourceConnector" and each["state"] == "RUNNING"
    ]
    return dict(found)


def told(command: str, *arguments: object) -> str:
    """All that a command prints, in one line."""
    ended = subprocess.run(
        [Path(sys.executable).with_name(command), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SOON_S,
        check=False,
    )
    return " ".join((ended.stdout + ended.stderr).split())


def test_a_loop_of_flows_in_different_files_is_not_begun(
    two: Topology, logs: Path, tmp_path: Path, listener: str
) -> None:
    """Neither name nor file shows it: both flows keep names, each in a process of its own."""
    topic = two.topic("A", "t", COUNT)
    identity = {POLICY: IDENTITY}
    there = two.properties({"A->B": identity})
    # Heartbeats of no flow at all: only the one that the file names runs in each process.
    back = two.properties({"B->A": identity}, {"metrics.listener": listener})
    with ExitStack() as stack:
        stack.enter_context(two.running(there, tmp_path / "there", logs / "there.log"))
        two.wait_records("B", topic, COUNT)
        stack.enter_context(two.running(back, tmp_path / "back", logs / "back.log"))
        late = two.topic("B", "late", COUNT)
        two.wait_records("A", late, COUNT)
        reason = f"topic {topic} is not copied: its records come from topic {topic} of"
        wait_until(
            lambda: reason in str(source_connector(listener).get("trace")), SOON_S, "the reason"
        )
        # `late` went the other way, so the first flow must not bring it back.
        wait_until(
            lambda: f"topic {late} is not copied" in (logs / "there.log").read_text(),
            SOON_S,
            "the reason on the other side",
        )
        file = tmp_path / "back" / "mm2.properties"
        said = told("connect-mirror-maker", "--check", file)
        assert f"topic {topic} is not copied" in said, said
        said = told("connect-mirror", "why", "-c", file, topic)
        loop = "STOP Would its copy make a loop? yes: its records come from topic"
        assert f"{loop} {topic} of" in said, said
        # The other flow began first, and copies it.
        said = told("connect-mirror", "why", "-c", tmp_path / "there" / "mm2.properties", topic)
        assert "ok Would its copy make a loop? no, according to" in said, said
    assert reason in (logs / "back.log").read_text()
    for letter in "AB":
        assert end_offset(two.servers(letter), topic) == COUNT
        assert end_offset(two.servers(letter), late) == COUNT


@pytest.mark.slow
@pytest.mark.parametrize("keeps_names", [False, True], ids=["default", "identity"])
def test_a_chain_carries_records_and_groups_over_two_hops(
    three: Topology, logs: Path, tmp_path: Path, keeps_names: bool
) -> None:
    topic, group = three.topic("A", "t", COUNT), f"{three.prefix}-group"
    policy = {POLICY: IDENTITY} if keeps_names else {}
    synced = {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}
    properties = three.properties({"A->B": policy, "B->C": policy}, synced)
    middle = topic if keeps_names else three.copy(topic, "A")
    end = topic if keeps_names else three.copy(topic, "A", "B")
    with three.running(properties, tmp_path, logs / "mirror.log"):
        three.wait_records("C", end, COUNT)
        commit(three.servers("A"), group, {(topic, 0): 20})
        wait_group(three.servers("B"), group, middle, 20)
        wait_group(three.servers("C"), group, end, 20)
    assert three.names("B") == {middle}
    assert three.names("C") == {end}
    assert numbers(read_partition(three.servers("C"), end)) == list(range(COUNT))


@pytest.mark.slow
def test_in_a_full_mesh_names_do_not_grow(three: Topology, logs: Path, tmp_path: Path) -> None:
    topics = {letter: three.topic(letter, letter.lower(), COUNT) for letter in "ABC"}
    flows: dict[str, dict[str, str]] = {f"{x}->{y}": {} for x in "ABC" for y in "ABC" if x != y}
    with three.running(three.properties(flows), tmp_path, logs / "mirror.log"):
        expected = {
            here: {
                topics[here],
                *(three.copy(topics[x], x) for x in "ABC" if x != here),
                *(
                    three.copy(topics[x], x, y)
                    for x in "ABC"
                    for y in "ABC"
                    if len({x, y, here}) == 3
                ),
            }
            for here in "ABC"
        }
        for here in "ABC":
            for name in expected[here]:
                three.wait_records(here, name, COUNT)
        # Once two later topics are everywhere, all clusters were listed twice with the copies.
        for number in range(2):
            late = three.topic("A", f"late{number}", COUNT)
            for here, route in (("B", "AC"), ("C", "AB")):
                three.wait_records(here, three.copy(late, *route), COUNT)
                expected[here] |= {three.copy(late, "A"), three.copy(late, *route)}
            expected["A"].add(late)
    for here in "ABC":
        assert three.names(here) == expected[here]
        for name in expected[here]:
            assert end_offset(three.servers(here), name) == COUNT


@pytest.mark.slow
def test_a_ring_with_mixed_policies_ends_where_it_began(
    three: Topology, logs: Path, tmp_path: Path
) -> None:
    """Renamed on the way, and back under yet another name: names cannot tell."""
    topic = three.topic("A", "t", COUNT)
    flows = {
        "A->B": {},
        "B->C": {POLICY: IDENTITY},
        "C->A": {POLICY: RENAMING, "replication.policy.prefix": "c."},
    }
    log = logs / "mirror.log"
    with three.running(three.properties(flows), tmp_path, log):
        three.wait_records("C", three.copy(topic, "A"), COUNT)
        back = f"topic {three.copy(topic, 'A')} is not copied: its records come from topic {topic}"
        wait_until(lambda: back in log.read_text(), SOON_S, "the reason")
        own = three.topic("C", "own", COUNT)
        three.wait_records("A", f"c.{own}", COUNT)
        three.wait_records("B", three.copy(f"c.{own}", "A"), COUNT)
        ends = f"topic {three.copy(f'c.{own}', 'A')} is not copied"
        wait_until(lambda: ends in log.read_text(), SOON_S, "the end of the second round")
    assert three.names("A") == {topic, f"c.{own}"}
    assert three.names("B") == {three.copy(topic, "A"), three.copy(f"c.{own}", "A")}
    assert three.names("C") == {three.copy(topic, "A"), own}


@pytest.mark.slow
def test_a_flow_that_is_turned_off_gives_its_topics_up(
    two: Topology, logs: Path, tmp_path: Path
) -> None:
    """The direction turns round, as after a failover."""
    topic = two.topic("A", "t", COUNT)
    identity = {POLICY: IDENTITY}
    log = logs / "mirror.log"
    with two.running(two.properties({"A->B": identity}), tmp_path, log):
        two.wait_records("B", topic, COUNT)
        turned = two.properties({"B->A": {**identity, "topics": f"{two.prefix}.t"}})
        # With its heartbeats the flow is still there, and says that it copies nothing.
        turned[f"{two.alias('A')}->{two.alias('B')}.emit.heartbeats.enabled"] = "true"
        file = tmp_path / "mm2.properties"
        file.write_text(properties_text(turned))
        two.wait_records("A", topic, 2 * COUNT)
    assert end_offset(two.servers("B"), topic) == COUNT


@pytest.mark.slow
def test_two_flows_keep_names_both_ways_for_topics_of_their_own(
    two: Topology, logs: Path, tmp_path: Path
) -> None:
    here, there = two.topic("A", "from-a", COUNT), two.topic("B", "from-b", COUNT)
    flows = {
        "A->B": {POLICY: IDENTITY, "topics": f"{two.prefix}.from-a.*"},
        "B->A": {POLICY: IDENTITY, "topics": f"{two.prefix}.from-b.*"},
    }
    with two.running(two.properties(flows), tmp_path, logs / "mirror.log"):
        two.wait_records("B", here, COUNT)
        two.wait_records("A", there, COUNT)
        later = two.topic("A", "from-a-later", COUNT)
        two.wait_records("B", later, COUNT)
    for letter in "AB":
        assert two.names(letter) == {here, there, later}
        assert {end_offset(two.servers(letter), name) for name in (here, there, later)} == {COUNT}


@pytest.mark.slow
def test_hub_and_spokes_gather_and_spread(three: Topology, logs: Path, tmp_path: Path) -> None:
    """C gathers from A and B, and spreads topics of its own to both."""
    gathered = {letter: three.topic(letter, "orders", COUNT) for letter in "AB"}
    spread = three.topic("C", "prices", COUNT)
    flows = {
        "A->C": {"topics": f"{three.prefix}.orders"},
        "B->C": {"topics": f"{three.prefix}.orders"},
        "C->A": {"topics": f"{three.prefix}.prices", POLICY: IDENTITY},
        "C->B": {"topics": f"{three.prefix}.prices", POLICY: IDENTITY},
    }
    with three.running(three.properties(flows), tmp_path, logs / "mirror.log"):
        for letter, topic in gathered.items():
            three.wait_records("C", three.copy(topic, letter), COUNT)
            three.wait_records(letter, spread, COUNT)
    assert three.names("C") == {spread, *(three.copy(gathered[x], x) for x in "AB")}
    for letter in "AB":
        assert three.names(letter) == {gathered[letter], spread}


@pytest.mark.slow
def test_sources_with_one_name_are_merged_into_one_topic(
    three: Topology, logs: Path, tmp_path: Path
) -> None:
    """Both keep names, so both write to the same partition of C; all records arrive once."""
    topic = three.topic("A", "orders", COUNT)
    assert three.topic("B", "orders", COUNT, start=1000) == topic
    flows = {"A->C": {POLICY: IDENTITY}, "B->C": {POLICY: IDENTITY}}
    with three.running(three.properties(flows), tmp_path, logs / "mirror.log"):
        three.wait_records("C", topic, 2 * COUNT)
    found = numbers(read_partition(three.servers("C"), topic))
    assert sorted(found) == [*range(COUNT), *range(1000, 1000 + COUNT)]
    assert [n for n in found if n < 1000] == list(range(COUNT)), "each source's order is kept"
    assert [n for n in found if n >= 1000] == list(range(1000, 1000 + COUNT))


@pytest.mark.slow
def test_namespaces_of_tenants_are_split_and_single_topics_renamed(
    three: Topology, logs: Path, tmp_path: Path
) -> None:
    starts = {"eu.": 1000, "us.": 2000}
    names = {
        name: create_topic(three.servers("A"), name=f"{name}{three.prefix}.t") for name in starts
    }
    for name, start in starts.items():
        produce(three.servers("A"), names[name], numbered(COUNT, start=start))
    special = three.topic("A", "special", COUNT)
    mapping = tmp_path / "names.properties"
    mapping.write_text(f"{special} = {three.prefix}.renamed\n")
    flows = {
        "A->B": {"topics": "eu[.].*", POLICY: RENAMING, "replication.policy.prefix.remove": "eu."},
        "A->C": {
            "topics": f"us[.].*, {special}",
            POLICY: RENAMING,
            "replication.policy.prefix.remove": "us.",
            "replication.policy.suffix": ".tenant",
            "replication.policy.mapping.file": str(mapping),
        },
    }
    with three.running(three.properties(flows), tmp_path, logs / "mirror.log"):
        three.wait_records("C", f"{three.prefix}.renamed", COUNT)
        three.wait_records("B", f"{three.prefix}.t", COUNT)
        three.wait_records("C", f"{three.prefix}.t.tenant", COUNT)
    assert three.names("B") == {f"{three.prefix}.t"}
    assert three.names("C") == {f"{three.prefix}.t.tenant", f"{three.prefix}.renamed"}
    assert three.names("A") == {*names.values(), special}
    for letter, name, start in (
        ("B", f"{three.prefix}.t", starts["eu."]),
        ("C", f"{three.prefix}.t.tenant", starts["us."]),
        ("C", f"{three.prefix}.renamed", 0),
    ):
        copied = numbers(read_partition(three.servers(letter), name))
        assert copied == list(range(start, start + COUNT))
