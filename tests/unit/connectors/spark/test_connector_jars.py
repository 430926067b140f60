"""Spark's Kafka source is used only if its jars are the pinned ones."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

from connect.errors import ConfigError
from connect.pinned_jars import read_lock
from connectors.spark import connector_jars
from connectors.spark.connector_jars import check_connector_jars, connector_lock
from connectors.spark.versions import kafka_connector

CONTENT = b"a jar"
PINNED = f"org.example:source:1.0 {hashlib.sha256(CONTENT).hexdigest()} {len(CONTENT)}\n"


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Ivy puts the only jar that is pinned."""
    lock = tmp_path / "its.lock"
    lock.write_text(PINNED)
    monkeypatch.setattr(connector_jars, "connector_lock", lambda _version: lock)
    (tmp_path / "ivy" / "jars").mkdir(parents=True)
    return tmp_path / "ivy" / "jars" / "org.example_source-1.0.jar"


def session(jar: Path, packages: str | None = None) -> dict[str, str]:
    ivy = str(jar.parents[1])
    return {"spark.jars.packages": packages or f"a:b:1,{kafka_connector()}", "spark.jars.ivy": ivy}


@pytest.mark.parametrize("version", ["4.0.0", "4.1.1"])
def test_the_tested_versions_are_pinned(version: str) -> None:
    jars = {jar.name: jar.version for jar in read_lock(connector_lock(version).read_text())}
    assert jars["spark-sql-kafka-0-10_2.13"] == version
    assert jars["spark-token-provider-kafka-0-10_2.13"] == version
    assert jars.keys() >= {"kafka-clients", "commons-pool2"}


def test_the_pinned_jar_is_accepted(jar: Path) -> None:
    jar.write_bytes(CONTENT)
    check_connector_jars(session(jar))


def test_another_jar_is_refused_with_both_sums_and_what_to_delete(jar: Path) -> None:
    jar.write_bytes(b"another jar")
    with pytest.raises(ConfigError) as caught:
        check_connector_jars(session(jar))
    text = str(caught.value)
    for part in (
        PINNED.split()[1],
        hashlib.sha256(b"another jar").hexdigest(),
        str(jar.parents[1]),
    ):
        assert part in text


def test_jars_that_are_not_where_ivy_puts_them_are_not_trusted(jar: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be checked"):
        check_connector_jars(session(jar))


def test_jars_of_the_user_s_own_are_the_user_s(jar: Path) -> None:
    jar.write_bytes(b"another jar")
    check_connector_jars(session(jar, "a:b:1"))


def test_a_version_that_is_not_pinned_is_used_with_a_warning(
    jar: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connector_jars, "connector_lock", lambda _version: jar.with_name("none"))
    with caplog.at_level(logging.WARNING, connector_jars.__name__):
        check_connector_jars(session(jar))
    assert "are used unchecked" in caplog.text
