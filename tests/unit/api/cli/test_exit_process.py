"""`leave`: a command's exit code is its own, whatever C libraries do at an ordinary exit."""

from __future__ import annotations

import os
import subprocess
import sys

# What OpenSSL does to the threads of a client that is not closed, without the need for luck.
_ABORTS_AT_EXIT = """
import atexit, ctypes, sys
libc = ctypes.CDLL(None)
abort = ctypes.cast(libc.abort, ctypes.c_void_p)
assert libc.__cxa_atexit(abort, None, None) == 0
atexit.register(print, "registered for the end")
print("printed before")
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _ABORTS_AT_EXIT + code],
        capture_output=True,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
        timeout=30,
        check=False,
    )


def test_an_ordinary_exit_runs_what_c_libraries_registered() -> None:
    assert _run("sys.exit(3)").returncode < 0


def test_a_command_leaves_with_its_exit_code_and_all_it_printed() -> None:
    ended = _run("from api.cli.processes.exit_process import leave; leave(3)")
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout == "printed before\nregistered for the end\n"


def test_output_that_nobody_took_is_no_success() -> None:
    closed = "import os; os.close(1); from api.cli.processes.exit_process import leave; leave({})"
    assert _run(closed.format(0)).returncode == 120
    assert _run(closed.format(3)).returncode == 3
