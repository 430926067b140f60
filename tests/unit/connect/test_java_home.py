"""Which Java is taken. The executables here only print what `java -version` would."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.java_home import find_java, java_version


def fake_java(directory: Path, banner: str, status: int = 0) -> Path:
    path = directory / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{banner}' >&2\nexit {status}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("No Java runtime present, requesting install.", None),
    ],
)
def test_the_version_is_read_from_every_form(
    tmp_path: Path, banner: str, version: int | None
) -> None:
    assert java_version(fake_java(tmp_path, banner)) == version


def test_a_java_that_fails_has_no_version(tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path, 'openjdk version "17.0.15"', status=1)) is None
    assert java_version(tmp_path / "nowhere") is None


def test_java_home_comes_before_the_path_unless_it_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = fake_java(tmp_path / "new", 'openjdk version "21.0.8"')
    newer = fake_java(tmp_path / "newer", 'openjdk version "25"')
    old = fake_java(tmp_path / "old", 'openjdk version "11.0.2"')
    monkeypatch.setenv("PATH", str(new.parent))
    monkeypatch.setenv("JAVA_HOME", str(newer.parent.parent))
    assert find_java() == newer
    assert find_java(before=24) == new
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    assert find_java() == new
