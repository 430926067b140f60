"""A run of random faults says what its machine lacks, and leaves out only what it is asked to."""

from __future__ import annotations

import os

import pytest

from tests.support.chaos import needs
from tests.support.chaos.needs import asked_without, missing, sentence
from tests.support.chaos.network import Network


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "faketime", lambda: None)
    monkeypatch.setattr(Network, "allowed", staticmethod(lambda: False))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("bare_machine")
def test_what_is_missing_is_named_with_its_remedy() -> None:
    assert list(missing()) == ["clock", "links", "disks"]
    assert list(missing(["clock", "disks"])) == ["links"]
    assert missing(["clock", "links", "disks"]) == {}
    text = sentence(missing())
    assert "apt-get install libfaketime" in text
    assert "apt-get install iproute2" in text
    assert "FAULT_WITHOUT=clock,links,disks" in text


def test_what_a_run_is_asked_to_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAULT_WITHOUT", raising=False)
    assert asked_without() == frozenset()
    monkeypatch.setenv("FAULT_WITHOUT", "clock, links")
    assert asked_without() == {"clock", "links"}
    monkeypatch.setenv("FAULT_WITHOUT", "luck")
    with pytest.raises(ValueError, match="names luck; it may name clock, links, disks"):
        asked_without()
