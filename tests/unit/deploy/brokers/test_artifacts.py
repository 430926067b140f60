"""Jars are whole and pinned, or the failure is one sentence."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from connect.pinned_jars import PinnedJar
from deploy.brokers import artifacts
from deploy.brokers.artifacts import Progress, fetch_kafka, read_lock
from deploy.brokers.errors import DownloadFailed
from deploy.brokers.versions import OLD_VERSIONS, lock_file

JAR = b"not really a jar" * 1000


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository in files, an empty cache, and no waiting between attempts."""
    monkeypatch.setenv("KAFKA_JARS_URL", (tmp_path / "repository").as_uri())
    monkeypatch.setenv("KAFKA_CONNECT_MIRROR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(artifacts, "_BACKOFF_S", 0.0)
    return tmp_path / "repository"


def pin(monkeypatch: pytest.MonkeyPatch, *pinned: PinnedJar) -> None:
    monkeypatch.setattr(artifacts, "read_lock", lambda _text: pinned)


def jar(name: str, content: bytes = JAR) -> PinnedJar:
    return PinnedJar("org.example", name, "1.0", hashlib.sha256(content).hexdigest(), len(content))


def publish(repository: Path, artifact: PinnedJar, content: bytes = JAR) -> None:
    path = repository / artifact.url_path
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


def test_the_lock_file_pins_every_jar() -> None:
    lock = Path(artifacts.__file__).with_name("kafka-4.3.1.lock")
    pinned = read_lock(lock.read_text())
    assert len({artifact.file_name for artifact in pinned}) == len(pinned) == 94
    assert all(len(artifact.sha256) == 64 and artifact.size > 0 for artifact in pinned)
    assert {"kafka_2.13", "connect-mirror", "connect-runtime", "kafka-tools"} <= {
        artifact.name for artifact in pinned
    }


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_the_locks_of_old_versions_pin_their_brokers(version: str) -> None:
    pinned = read_lock(lock_file(version).read_text())
    assert len({artifact.file_name for artifact in pinned}) == len(pinned)
    assert all(len(artifact.sha256) == 64 and artifact.size > 0 for artifact in pinned)
    versions = {artifact.name: artifact.version for artifact in pinned}
    assert versions["kafka_2.13"] == versions["kafka-clients"] == version
    assert {"reload4j", "slf4j-reload4j", "zookeeper"} <= versions.keys()


def test_versions_have_caches_of_their_own(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = jar("kafka")
    pin(monkeypatch, pinned)
    publish(repository, pinned)
    assert [path.parent.name for path in fetch_kafka(version="2.8.2")] == ["kafka-2.8.2"]
    assert [path.parent.name for path in fetch_kafka()] == ["kafka-4.3.1"]


def test_a_lock_line_that_is_not_one_is_shown() -> None:
    with pytest.raises(DownloadFailed, match="line 2 of the lock file"):
        read_lock("# a comment\norg.example:only-two 00 1\n")


def test_missing_jars_are_fetched_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = jar("first"), jar("second")
    pin(monkeypatch, first, second)
    publish(repository, first)
    publish(repository, second)
    seen: list[Progress] = []
    paths = fetch_kafka(seen.append)
    assert [path.read_bytes() for path in paths] == [JAR, JAR]
    assert seen[0] == Progress(0, 2 * len(JAR))
    assert seen[-1] == Progress(2 * len(JAR), 2 * len(JAR))
    seen.clear()
    assert fetch_kafka(seen.append) == paths
    assert seen == []


def test_bytes_that_are_not_the_pinned_ones_never_reach_the_cache(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = jar("wrong")
    pin(monkeypatch, wrong)
    publish(repository, wrong, JAR[:-1] + b"!")
    with pytest.raises(DownloadFailed, match=r"wrong-1\.0\.jar .*but the lock file has"):
        fetch_kafka()
    assert list(tmp_path.glob("cache/**/*.jar*")) == []
    assert list(tmp_path.glob("cache/**/*.part")) == []


def test_a_jar_that_is_not_there_is_named_with_the_remedy(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(monkeypatch, jar("absent"))
    with pytest.raises(DownloadFailed, match=r"Cannot download absent-1\.0\.jar .*KAFKA_JARS_URL"):
        fetch_kafka()


def test_a_password_in_the_url_is_not_shown(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(monkeypatch, jar("absent"))
    monkeypatch.setenv("KAFKA_JARS_URL", "http://user:hunter2@127.0.0.1:9/maven")
    with pytest.raises(DownloadFailed, match="127") as raised:
        fetch_kafka()
    assert "hunter2" not in str(raised.value)


def test_another_kind_of_url_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, jar("absent"))
    monkeypatch.setenv("KAFKA_JARS_URL", "ftp://example.org/maven")
    with pytest.raises(DownloadFailed, match="KAFKA_JARS_URL must be a URL"):
        fetch_kafka()
