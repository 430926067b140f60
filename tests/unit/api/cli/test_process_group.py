"""Children of `--workers N`: real processes that do nothing but live and end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.cli.processes.process_group import LIVED_LONG_S, ProcessGroup
from connect.clock import Deadline
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until

TIMEOUT_S = 20.0

# Tells that it is ready, ends well when asked to stop, and when its parent is gone.
LIVES = """
import os, signal, sys, threading
from pathlib import Path
sys.path.insert(0, {root!r})
from api.cli.processes.process_group import watch_parent
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
watch_parent(stop.set)
Path({ready!r}).write_text(str(os.getpid()))
stop.wait()
Path({ready!r}).unlink()
"""
ROOT = str(Path(__file__).parents[4])


def lives(ready: Path) -> list[str]:
    return [sys.executable, "-c", LIVES.format(root=ROOT, ready=str(ready))]


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


@pytest.fixture
def groups() -> Iterator[list[ProcessGroup]]:
    """Groups whose children do not outlive the test."""
    made: list[ProcessGroup] = []
    yield made
    for group in made:
        group.kill()


def is_ready(group: ProcessGroup, ready: Path) -> bool:
    return ready.exists() and ready.read_text() in map(str, group.pids)


def test_children_start_and_stop_together(tmp_path: Path, groups: list[ProcessGroup]) -> None:
    files = [tmp_path / "1", tmp_path / "2"]
    group = ProcessGroup([lives(file) for file in files])
    groups.append(group)

    group.start()
    wait_until(
        lambda: all(is_ready(group, file) for file in files), TIMEOUT_S, "start of the children"
    )
    assert group.stop(Deadline(TIMEOUT_S))
    assert group.pids == [None, None]
    assert not any(file.exists() for file in files)


def test_a_child_that_ends_by_itself_is_told_with_its_code(
    tmp_path: Path, groups: list[ProcessGroup]
) -> None:
    file = tmp_path / "1"
    group = ProcessGroup([lives(file), python("raise SystemExit(255)")])
    groups.append(group)
    group.start()
    wait_until(lambda: group.ended() == 255, TIMEOUT_S, "the end of the second child")
    wait_until(lambda: is_ready(group, file), TIMEOUT_S, "start of the first child")
    assert not group.stop(Deadline(TIMEOUT_S))


def test_a_child_that_ends_is_started_again_later_and_later(groups: list[ProcessGroup]) -> None:
    clock = FakeClock()
    group = ProcessGroup([python("raise SystemExit(3)")], clock, (1.0, 60.0))
    groups.append(group)
    group.start()

    for wait in (1.0, 2.0):
        wait_until(lambda: group.pids == [None], TIMEOUT_S, "end of the child")
        group.check()
        clock.advance(wait * 0.4)
        group.check()
        assert group.pids == [None]
        clock.advance(wait * 2)
        group.check()
        # It may have ended again already: then it is noticed as a new end.
    assert group.stop(Deadline(TIMEOUT_S)) is False


def test_a_child_that_lived_long_is_started_again_soon(
    tmp_path: Path, groups: list[ProcessGroup]
) -> None:
    clock = FakeClock()
    group = ProcessGroup([lives(tmp_path / "1")], clock, (1.0, 1000.0))
    groups.append(group)
    group.start()
    for _ in range(4):
        wait_until(lambda: is_ready(group, tmp_path / "1"), TIMEOUT_S, "start of the child")
        first = group.pids[0]
        group.kill()
        wait_until(lambda: group.pids == [None], TIMEOUT_S, "end of the child")
        clock.advance(LIVED_LONG_S)
        group.check()
        clock.advance(2.0)
        group.check()
        assert group.pids[0] not in (None, first)
    wait_until(lambda: is_ready(group, tmp_path / "1"), TIMEOUT_S, "start of the child")
    assert group.stop(Deadline(TIMEOUT_S))


def test_a_child_that_does_not_stop_is_killed(tmp_path: Path, groups: list[ProcessGroup]) -> None:
    ready = tmp_path / "ready"
    code = (
        "import signal, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"pathlib.Path({str(ready)!r}).touch(); signal.pause()"
    )
    while_stopping = ProcessGroup([python(code)])
    groups.append(while_stopping)
    while_stopping.start()
    wait_until(ready.exists, TIMEOUT_S, "start of the child")

    assert while_stopping.stop(Deadline(0.1)) is False
    assert while_stopping.pids == [None]


def test_children_end_with_their_parent(tmp_path: Path) -> None:
    """Also when it is killed: a parent in between starts the child and dies."""
    import subprocess

    ready = tmp_path / "ready"
    parent = (
        f"import sys, os, time; sys.path.insert(0, {ROOT!r})\n"
        "from api.cli.processes.process_group import ProcessGroup\n"
        f"ProcessGroup([{lives(ready)!r}]).start()\n"
        f"while not os.path.exists({str(ready)!r}): time.sleep(0.02)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", parent], timeout=TIMEOUT_S, check=False)

    wait_until(lambda: not ready.exists(), TIMEOUT_S, "end of the child")
