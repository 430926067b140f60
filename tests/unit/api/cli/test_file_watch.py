"""A file that is written anew is noticed once, and not in the middle of the writing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from api.cli.file_watch import FileWatch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "mm2.properties"
    found.write_text("a = 1\n")
    return found


@pytest.fixture
def watch(path: Path) -> FileWatch:
    return FileWatch(path)


def test_nothing_is_said_of_a_file_that_stays(watch: FileWatch) -> None:
    assert [watch.changed() for _ in range(3)] == [False] * 3


def test_it_is_said_once_and_only_when_the_file_has_come_to_rest(
    path: Path, watch: FileWatch
) -> None:
    for text in ("a = 22\n", "a = 22\nb = 3\n"):
        path.write_text(text)
        assert not watch.changed(), "somebody may still be writing"
    assert watch.changed()
    assert not watch.changed()


def test_a_file_that_is_replaced_or_linked_elsewhere_is_another(
    tmp_path: Path, path: Path, watch: FileWatch
) -> None:
    newer = tmp_path / "newer"
    newer.write_text("a = 1\n")
    os.replace(newer, path)
    assert [watch.changed() for _ in range(3)] == [False, True, False]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("a = 1\n")
    path.unlink()
    path.symlink_to(elsewhere)
    assert [watch.changed() for _ in range(3)] == [False, True, False]


def test_a_file_that_is_not_there_for_a_moment_is_waited_for(path: Path, watch: FileWatch) -> None:
    path.unlink()
    assert [watch.changed() for _ in range(3)] == [False] * 3
    path.write_text("a = 2\n")
    assert [watch.changed() for _ in range(3)] == [False, True, False]
