"""The copier between brokers that answer with nonsense: it says so, takes no memory for promises,
writes nothing that is wrong, and goes on where it was once they answer well.

All of it, on every kind of request: tests/faults/test_hostile_brokers."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from connect.clients.cluster import broker_node as node
from tests.support.copier.hostile_broker import FETCH, METADATA, PRODUCE
from tests.support.copier.hostile_copy import (
    ANY_ANSWER,
    COUNT,
    FETCHES,
    KEY,
    MIB,
    PRODUCES,
    TIMEOUT_S,
    Broken,
    HostileCopy,
    body,
    records,
    setting,
    survives,
)
from tests.support.waiting import wait_until

SLOW = ("drip", "silence")
QUICK = [name for name in ANY_ANSWER if name not in SLOW]


@pytest.mark.parametrize("name", QUICK)
def test_a_source_whose_fetch_answers_are_nonsense(name: str) -> None:
    survives(source=Broken(FETCH, ANY_ANSWER[name], after=1))


@pytest.mark.parametrize("name", QUICK)
def test_a_target_whose_produce_answers_are_nonsense(name: str) -> None:
    survives(target=Broken(PRODUCE, ANY_ANSWER[name]))


@pytest.mark.parametrize("name", FETCHES)
def test_a_source_whose_records_lie(name: str) -> None:
    survives(source=Broken(FETCH, FETCHES[name]))


@pytest.mark.parametrize("name", PRODUCES)
def test_a_target_that_lies_about_what_it_took(name: str) -> None:
    survives(target=Broken(PRODUCE, PRODUCES[name]))


@pytest.mark.parametrize("size", [100 * MIB, 2**31 - 1])
def test_memory_comes_with_the_bytes_and_not_with_the_promise_of_them(size: int) -> None:
    fault = Broken(FETCH, setting("size", size))
    line = HostileCopy(fault, None, 0)
    tracemalloc.start()
    try:
        with line.source, line.target, line.run:
            wait_until(lambda: fault.met > 2, TIMEOUT_S, "several promises")
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 48 * MIB


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_broker_that_asks_for_weeks_of_silence_is_asked_again(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "MOST_THROTTLE_S", 0.2)
    weeks = 2**31 - 1
    if side == "source":
        answers = records(throttle_ms=weeks)
        line = HostileCopy(Broken(FETCH, answers), None, 0)
        fault = line.source.fault
    else:
        asked = body(lambda data: data[:-4] + struct.pack(">i", weeks))
        line = HostileCopy(None, Broken(PRODUCE, asked), 0)
        fault = line.target.fault
    assert isinstance(fault, Broken)
    with line.source, line.target, line.run:
        wait_until(lambda: fault.met > 1, TIMEOUT_S, "more than one answer")
        fault.mended = True
        line.run.wait({KEY: COUNT}, TIMEOUT_S)
    assert line.written() == list(range(COUNT))


@pytest.mark.parametrize("address", [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("x" * 70, 9092)])
def test_a_cluster_that_advertises_what_is_no_address_is_asked_again(
    address: tuple[str, int],
) -> None:
    line = HostileCopy(None, None, 0)
    line.source.advertised = address
    with line.source, line.target, line.run:
        wait_until(lambda: line.source.asked.count(METADATA) > 2, TIMEOUT_S, "asking again")
        line.source.advertised = None
        line.run.wait({KEY: COUNT}, TIMEOUT_S)
    assert line.written() == list(range(COUNT))


@pytest.mark.parametrize(("side", "api"), [("source", FETCH), ("target", PRODUCE)])
def test_a_broker_that_speaks_another_version_is_named_and_asked_again(side: str, api: int) -> None:
    line = HostileCopy(None, None, 0)
    broker = line.source if side == "source" else line.target
    ours, broker.versions[api] = broker.versions[api], 3
    with line.source, line.target, line.run:
        wait_until(
            lambda: "supports versions 0 to 3" in (line.run.error("t") or ""),
            TIMEOUT_S,
            "the error",
        )
        broker.versions[api] = ours
        line.run.wait({KEY: COUNT}, TIMEOUT_S)
    assert line.written() == list(range(COUNT))
