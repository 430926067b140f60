"""The file of a running mirror changes: flows and clusters come and go, and the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.flows.topologies import Topology
from tests.support.properties_files import properties_text
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic
from tests.support.served import health_of, rebalances, settled_rebalances
from tests.support.waiting import wait_until

COUNT = 50
SOON_S = 120.0


def test_flows_come_and_go_with_the_file_while_others_go_on(
    three: Topology, logs: Path, tmp_path: Path, listener: str
) -> None:
    topic, log = three.topic("A", "t", COUNT), logs / "mirror.log"
    served = {"metrics.listener": listener}
    file = tmp_path / "mm2.properties"

    def write(flows: dict[str, dict[str, str]]) -> None:
        properties = three.properties(flows, served)
        file.write_text(properties_text(properties))

    def flows() -> set[str]:
        return {each["flow"] for each in health_of(listener)["connectors"]}

    def assert_stayed() -> None:
        """What is copied later is counted by the task that was there from the start."""
        text = log.read_text()
        name = f"{three.alias('A')}->{three.alias('B')}"
        assert text.count(f"{name}: started") == 1
        assert text.count(f"{name}: restarted") == 0

    one: dict[str, dict[str, str]] = {"A->B": {}}
    other: dict[str, dict[str, str]] = {"A->C": {}}
    with three.running(three.properties(one, served), tmp_path, log):
        three.wait_records("B", three.copy(topic, "A"), COUNT)
        write({**one, **other})
        three.wait_records("C", three.copy(topic, "A"), COUNT)
        later = three.topic("A", "later", COUNT)
        three.wait_records("B", three.copy(later, "A"), COUNT)
        assert_stayed()

        write(one)
        wait_until(lambda: "removed" in log.read_text(), SOON_S, "the end of A->C")
        left = {f"{three.alias('A')}->{three.alias('B')}"}
        wait_until(lambda: flows() == left, SOON_S, "only A->B on the page")
        last = three.topic("A", "last", COUNT)
        three.wait_records("B", three.copy(last, "A"), COUNT)
        assert_stayed()

        with file.open("a") as lines:
            lines.write("tasks.max = many\n")
        wait_until(lambda: "Ignoring the changes" in log.read_text(), SOON_S, "the refusal")
        assert_stayed()
    assert three.copy(last, "A") not in three.names("C")


@pytest.fixture
def listeners(listener: str) -> Iterator[tuple[str, str]]:
    """Two addresses for pages."""
    with closing(PortLease(cache_directory() / "ports")) as lease:
        yield listener, f"http://{LOOPBACK}:{lease.port}"


@pytest.mark.slow
def test_a_flow_and_its_cluster_come_and_go_in_a_group_of_two_processes(
    three: Topology, logs: Path, tmp_path: Path, listeners: tuple[str, str]
) -> None:
    """The files are changed one after the other. The group of the other flow never rebalances, so
    none of its tasks stops."""
    stays, comes = (f"{three.alias('A')}->{three.alias(letter)}" for letter in "BC")
    topic = create_topic(three.servers("A"), name=f"{three.prefix}.t", partitions=2)
    copy, written = three.copy(topic, "A"), 0
    texts = [logs / f"mirror-{number}.log" for number in range(2)]

    def properties(number: int, *flows: str) -> dict[str, str]:
        more = {"metrics.listener": listeners[number], "tasks.max": "2"}
        for letter in {letter for flow in flows for letter in flow.split("->")}:
            more[f"{three.alias(letter)}.scheduled.rebalance.max.delay.ms"] = "500"
        return three.properties({flow: {} for flow in flows}, more)

    def write(number: int, *flows: str) -> None:
        text = properties_text(properties(number, *flows))
        (tmp_path / str(number) / "mm2.properties").write_text(text)

    def more_records(*targets: str) -> None:
        nonlocal written
        for partition in range(2):
            records = numbered(COUNT, start=written, partition=partition)
            produce(three.servers("A"), topic, records)
        written += COUNT
        for letter in targets:
            for partition in range(2):
                three.wait_records(letter, copy, written, partition)

    def flows_of(number: int) -> set[str]:
        return {each["flow"] for each in health_of(listeners[number])["connectors"]}

    def wait_flows(number: int, *flows: str) -> None:
        wait_until(lambda: flows_of(number) == set(flows), SOON_S, f"{flows} in process {number}")

    def owners() -> set[str]:
        """The workers with running tasks of the flow that stays."""
        return {
            task["worker_id"]
            for each in health_of(listeners[0])["connectors"]
            if (each["flow"], each["name"]) == (stays, "MirrorSourceConnector")
            for task in each["tasks"]
            if task["state"] == "RUNNING"
        }

    def of_the_group(listener: str) -> list[float]:
        return [value for labels, value in rebalances(listener) if labels["flow"] == stays]

    with ExitStack() as stack:
        for number in range(2):
            directory = tmp_path / str(number)
            stack.enter_context(three.running(properties(number, "A->B"), directory, texts[number]))
        wait_until(
            lambda: all("listening on" in log.read_text() for log in texts), SOON_S, "both pages"
        )
        wait_until(lambda: len(owners()) == 2, SOON_S, "tasks on both processes")
        more_records("B")
        for listener in listeners:
            settled_rebalances(listener)
        before, shared = [of_the_group(each) for each in listeners], owners()
        assert len(shared) == 2

        for number in range(2):
            write(number, "A->B", "A->C")
            wait_flows(number, stays, comes)
            more_records("B", "C")
        for number in range(2):
            write(number, "A->B")
            wait_flows(number, stays)
            assert f"{comes}: removed" in texts[number].read_text()
            more_records(*("BC" if number == 0 else "B"))

        assert owners() == shared
        assert [of_the_group(each) for each in listeners] == before
        for text in map(Path.read_text, texts):
            assert text.count(f"{stays}: started") == 1
            assert f"{stays}: restarted" not in text
    for partition in range(2):
        for letter, count in (("B", written), ("C", written - COUNT)):
            found = numbers(read_partition(three.servers(letter), copy, partition))
            if letter == "B":
                assert found == list(range(count)), "nothing is copied twice"
            else:
                assert list(dict.fromkeys(found)) == list(range(count))
