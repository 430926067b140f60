"""Secrets in what a process shows are found by the tests that look for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.support.security.canaries import Canaries

_WAITS = "import sys; print('up', flush=True); sys.stdin.read()"


@contextmanager
def process(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[int]:
    """The id of a process with these arguments and variables, which waits."""
    command = [sys.executable, "-c", _WAITS, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        yield started.pid


def test_a_secret_in_an_environment_is_found() -> None:
    canaries = Canaries()
    with process(environment={"LOGIN": f"x{canaries.new('a password')}"}) as pid:
        (found,) = canaries.leaked_by_processes(pid)
        allowed = canaries.leaked_by_processes(pid, by_design={"a password"})
    assert "a password in environment of" in found
    assert allowed == []


def test_a_secret_in_a_command_line_is_found_wherever_else_it_may_be() -> None:
    canaries = Canaries()
    with process(canaries.new("a password")) as pid:
        (found,) = canaries.leaked_by_processes(pid, by_design={"a password"})
    assert "a password in command line of" in found


def test_nothing_is_found_in_a_process_without_secrets() -> None:
    canaries = Canaries()
    canaries.new("a password")
    with process() as pid:
        assert canaries.leaked_by_processes(pid) == []
