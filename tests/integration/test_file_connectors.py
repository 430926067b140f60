"""The file connectors on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.runtime.states import State
from connectors.files.plugins import register
from deploy.brokers import KafkaCluster
from tests.integration.test_standalone_herder import Bench

JAVA_NAMES = "org.apache.kafka.connect.file."
STRINGS = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    register(bench.plugins)
    yield bench
    bench.close()


def reopen(bench: Bench) -> None:
    assert bench.close()
    bench.open()
    register(bench.plugins)


def put_source(bench: Bench, file: Path) -> None:
    bench.put(
        f"{JAVA_NAMES}FileStreamSourceConnector", "source", file=str(file), value_converter=STRINGS
    )


def add(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


def test_lines_become_records_and_none_comes_twice_after_a_restart(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    add(file, "one\ntwo\nthr")
    put_source(bench, file)
    bench.arrived("one", "two")
    bench.becomes(State.RUNNING, State.RUNNING, name="source")
    reopen(bench)
    add(file, "ee\nfour\n")
    put_source(bench, file)
    bench.arrived("three", "four")
    assert bench.values() == [b"one", b"two", b"three", b"four"]
