"""A command that needs Spark and finds none: it says so at once, and ends with what can be done."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from api.cli import mirror_audit
from api.cli.program import EXIT_FAILED
from connect.errors import ConfigError
from connectors.spark import program_session as module
from connectors.spark import requirements
from connectors.spark.drivers import classic
from connectors.spark.errors import SparkUnavailable
from connectors.spark.program_session import Patience, own_session
from connectors.spark.requirements import SparkMissing

QUICK = Patience(silent=0.1, start=20.0, failed=0.5)
PROPERTIES = """
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
A->B.topics = .*
"""


@pytest.fixture(autouse=True)
def with_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test gets as far as starting it."""
    monkeypatch.setattr(requirements, "find_java", lambda **_: Path("java"))


@pytest.fixture
def nowhere() -> Iterator[str]:
    """A master's URL at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"spark://127.0.0.1:{held.getsockname()[1]}"


def test_an_unreachable_master_is_told_at_once_and_given_up_with_what_to_do(
    nowhere: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(SparkUnavailable) as raised,
        own_session("test", {"spark.master": nowhere}, instead="walk", patience=QUICK),
    ):
        pytest.fail("there is no session")
    told = caplog.messages
    assert f"Cannot reach the Spark master {nowhere}" in told[0]
    assert told[1] == f"retrying Spark on {nowhere} for 0 s"
    assert len(told) == 2
    said = str(raised.value)
    assert f"Cannot use Spark: Cannot reach the Spark master {nowhere}" in said
    assert said.endswith("or set another master in spark.master; or walk")


def test_a_start_that_takes_long_is_told_and_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As behind a firewall that drops what it does not let through."""
    monkeypatch.setattr(socket, "create_connection", lambda *_: threading.Event().wait(2.0))
    patience = Patience(silent=0.1, start=0.5, failed=0.1)
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(SparkUnavailable, match="spark://far:7077 did not answer in time"),
        own_session("test", {"spark.master": "spark://far:7077"}, patience=patience),
    ):
        pytest.fail("there is no session")
    assert caplog.messages == ["Waiting until Spark on spark://far:7077 answers"]


def test_what_no_try_can_mend_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise ConfigError("not such a value", key="spark.archives")

    monkeypatch.setattr(classic, "_reach", refuse)
    with (
        pytest.raises(ConfigError, match="not such a value"),
        own_session("test", {}, patience=Patience(failed=600.0)),
    ):
        pytest.fail("there is no session")


def test_the_audit_ends_with_its_exit_code_and_names_the_other_engine(
    nowhere: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "own_session", partial(own_session, patience=QUICK))
    file = tmp_path / "mm2.properties"
    file.write_text(f"{PROPERTIES}spark.master = {nowhere}\n")
    assert mirror_audit.main([str(file)]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert said.count(f"Cannot reach the Spark master {nowhere}") >= 1
    assert "use --engine local, which needs no Spark" in said


def test_a_machine_without_java_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_java", lambda **_: None)
    with (
        pytest.raises(SparkMissing, match=r"Spark needs Java 17 to 23: .*; or walk$"),
        own_session("test", {}, instead="walk", patience=Patience(failed=600.0)),
    ):
        pytest.fail("there is no session")
