"""The commands of docs/how-to/failover.md, taken from the page and typed, for the flow that it has.

The page speaks of all groups of a cluster, so these are clusters of the test's own.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Set
from pathlib import Path
from typing import NamedTuple

import pytest

from connect.config.properties import parse_properties
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.docs.pages import DOCS, blocks
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.flows.mirrors import mm2_properties
from tests.support.records.groups import checkpoints, commit, committed, consume, member
from tests.support.records.producing import numbered, produce, produce_transactions
from tests.support.records.topics import create_topic, end_offset, has_topic
from tests.support.waiting import wait_until

PAGE = DOCS / "how-to" / "failover.md"
COMMAND = "connect-mirror-client"
_WAIT_S = 60.0
_READ_AGAIN = 7


def block(first: str) -> str:
    """The block of the page that begins so."""
    (found,) = [each.text for each in blocks(PAGE) if each.text.startswith(first)]
    return found


def commands() -> list[str]:
    """The page's commands, in its order."""
    lines = [
        line for each in blocks(PAGE) if each.language == "bash" for line in each.text.splitlines()
    ]
    return [line for line in lines if line.startswith(f"{COMMAND} ")]


class Typed(NamedTuple):
    """A command that has ended."""

    status: int
    lines: list[list[str]]
    errors: str

    def row(self, *start: str) -> list[str]:
        """The one line of a table that begins with these cells."""
        found = [line for line in self.lines if tuple(line[: len(start)]) == start]
        assert len(found) == 1, f"{start}: {self.lines} {self.errors}"
        return found[0]


class Terminal:
    """Where the page's commands are typed: in a directory with its mm2.properties."""

    def __init__(self, directory: Path, a: str, b: str) -> None:
        self.directory = directory
        self._servers = {"a1:9092": a, "b1:9092": b}

    def real(self, text: str) -> str:
        """With the clusters that there are."""
        for name, servers in self._servers.items():
            text = text.replace(name, servers)
        return text

    def type(self, command: str, *more: str) -> Typed:
        program, *arguments = shlex.split(self.real(command))
        done = subprocess.run(
            [str(Path(sys.executable).with_name(program)), *arguments, *more],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            cwd=self.directory,
        )
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        return Typed(done.returncode, lines, done.stderr)

    def type_until_exact(self, command: str, group: str) -> Typed:
        """Until the map tells of all that the group has read, which it does with the next commit
        of source offsets."""

        def typed() -> Typed | None:
            shown = self.type(command)
            rows = [line for line in shown.lines if line[0] == group]
            return shown if rows and all(row[_READ_AGAIN] == "0" for row in rows) else None

        shown = wait_until(typed, _WAIT_S, f"exact places of {group}")
        assert shown is not None
        return shown


class Clusters(NamedTuple):
    """The page's clusters, their servers, and its flow."""

    a: str
    b: str
    flow: MirroredFlow
    terminal: Terminal
    properties: dict[str, str]


@pytest.fixture
def clusters(kafka: KafkaRuntime, tmp_path: Path, logs: Path) -> Iterator[Clusters]:
    with (
        KafkaCluster(name="a", kafka=kafka, logs=logs) as cluster_a,
        KafkaCluster(name="b", kafka=kafka, logs=logs) as cluster_b,
    ):
        a, b = cluster_a.bootstrap_servers, cluster_b.bootstrap_servers
        terminal = Terminal(tmp_path, a, b)
        small = {
            key: value
            for key, value in mm2_properties(a, b).items()
            if not key.startswith(("clusters", "source", "target"))
        }
        properties = {
            **small,
            **parse_properties(terminal.real(block("clusters = A, B"))),
            "A.consumer.isolation.level": "read_committed",
            "offset.storage.partitions": "1",
        }
        flow = MirroredFlow(cluster_a, cluster_b, "", "A", "B")
        yield Clusters(a, b, flow, terminal, properties)


def write_orders(servers: str) -> list[bytes]:
    """Transactions, some of them aborted; the values of the others."""
    create_topic(servers, name="orders")
    transactions = [(numbered(10, start=n), n % 50 != 0) for n in range(0, 200, 10)]
    produce_transactions(servers, "orders", transactions)
    return [r.value for records, done in transactions if done for r in records if r.value]


def answers_of_the_python_example(terminal: Terminal) -> list[tuple[str, object]]:
    """Each call's comment, and what it gave."""
    code = re.sub(
        r"^( +)(client\..*?) +# (.*)$",
        lambda found: f"{found[1]}answers.append(({found[3]!r}, {found[2]}))",
        terminal.real(block("import re")),
        flags=re.MULTILINE,
    )
    answers: list[tuple[str, object]] = []
    exec(code, {"answers": answers})
    return answers


def assert_said(comment: str, answer: object) -> None:
    """The comment is the answer, or the beginning of it; of offsets it names the partitions."""
    text = comment.replace(", ...}", "}")
    said = eval(text, {"OffsetAndMetadata": lambda _: None})
    if isinstance(said, dict):
        said = said.keys()
        assert isinstance(answer, dict)
        answer = answer.keys()
    if text != comment:
        assert isinstance(answer, Set)
        assert said <= answer, comment
    else:
        assert answer == said, comment


@pytest.mark.slow
def test_the_pages_commands_do_what_it_says(clusters: Clusters, tmp_path: Path, logs: Path) -> None:
    show, move, show_back, move_back, look, topics, bare = commands()
    a, b, flow, terminal, properties = clusters
    orders = write_orders(a)
    for group in ("late", "redo"):
        commit(a, group, {("orders", 0): 0})
    exec(terminal.real(block("from confluent_kafka")).replace("5_000", "70"), {})
    billing, late = orders[:70], consume(a, "late", ["orders"], 30)

    with running(properties, tmp_path, logs / "there.log") as mirror:
        wait_until(lambda: has_topic(b, "A.heartbeats"), _WAIT_S, "copied heartbeats")
        flow.wait_records("orders", [len(orders)])
        wait_until(lambda: len(checkpointed(flow)) == 3, _WAIT_S, "checkpoints of all groups")

        without_file = "--bootstrap b1:9092"
        for command in (look, look.replace("--config mm2.properties --to B", without_file)):
            assert terminal.type(command).row("A") == ["A", "1"]
        for command in (topics, topics.replace("--config mm2.properties --to B", without_file)):
            assert terminal.type(command).row("A.orders") == ["A.orders", "A"]
        answers = answers_of_the_python_example(terminal)
        assert len(answers) == 7
        for comment, answer in answers:
            assert_said(comment, answer)

        shown = terminal.type_until_exact(show, "billing")
        assert {line[0] for line in shown.lines if "orders" in line} == {"billing", "late", "redo"}
        assert shown.row("billing")[2:] == cells(a, "billing", "70", "160", "0", "")
        assert terminal.type(bare).row("billing") == shown.row("billing")
        by_checkpoints = terminal.type(show, "--checkpoints")
        assert by_checkpoints.row("billing")[2:] == cells(a, "billing", "70", "160", "?", "")
        with member(b, "late", "A.orders"):
            moved = terminal.type(move)
            assert moved.status == 3
            assert any("late has members on the new cluster" in line[0] for line in moved.lines)
        assert committed(b, "billing") == {("A.orders", 0): 70}
        assert committed(b, "late") == {}
        assert terminal.type(move).status == 0
        assert billing + consume(b, "billing", ["A.orders"]) == orders
        late += consume(b, "late", ["A.orders"], 40)

        commit(b, "redo", {("A.orders", 0): 90})
        moved = terminal.type(move)
        assert moved.status == 3
        ahead = next(line[0] for line in moved.lines if line[0].startswith("redo: ahead"))
        assert "--commit --rewind moves the group back" in ahead
        assert committed(b, "redo") == {("A.orders", 0): 90}
        assert terminal.type(move, "--rewind").status == 0
        assert committed(b, "redo") == {("A.orders", 0): 0}
        # Everything else was ahead on B, and went back as well.
        commit(b, "late", {("A.orders", 0): 70})
        stop_cleanly(mirror, logs / "there.log")

    create_topic(b, name="payments")
    produce(b, "payments", numbered(50, start=1000))
    commit(b, "payer", {("payments", 0): 20})
    with running(properties | {"B->A.enabled": "true"}, tmp_path, logs / "both.log") as mirror:
        wait_until(lambda: has_topic(a, "B.payments"), _WAIT_S, "the copy of payments")
        wait_until(lambda: end_offset(a, "B.payments") == 50, _WAIT_S, "its records")
        shown = terminal.type_until_exact(show_back, "payer")
        assert shown.row("late", "A.orders")[3:5] == ["70", "orders"]
        assert shown.row("payer", "payments")[3:8] == ["20", "B.payments", "20", "50", "0"]
        assert terminal.type(move_back).status == 0
        assert late + consume(a, "late", ["orders"]) == orders
        assert len(consume(a, "payer", ["B.payments"])) == 30

        commit(a, "last", {("orders", 0): committed(a, "billing")["orders", 0]})
        wait_until(lambda: "last" in checkpointed(flow), _WAIT_S, "its checkpoint")
        for node in flow.source.nodes:
            node.kill()
        moved = terminal.type(move)
        assert moved.status == 0
        assert "using checkpoints, because A does not answer" in moved.errors
        assert consume(b, "last", ["A.orders"]) == orders[70:]


def cells(servers: str, group: str, place: str, end: str, again: str, has: str) -> list[str]:
    """From the third cell of a row of orders on."""
    offset = str(committed(servers, group)["orders", 0])
    return ["0", offset, "A.orders", place, end, again, has]


def checkpointed(flow: MirroredFlow) -> set[str]:
    return {each.group for each in checkpoints(flow)}
