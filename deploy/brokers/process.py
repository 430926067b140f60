"""Child processes that cannot outlive their owner.

`GuardedProcess` starts a command under `guard.py`. Every signal goes through the guard. The guard
is the command's parent, so it never signals a process ID that was reused.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from deploy.brokers.errors import ProcessFailed

__all__ = ["GuardedProcess", "complaints"]

_GUARD = Path(__file__).with_name("guard.py")
# The guard forks and responds at once. This only limits the wait on an overloaded machine.
_START_TIMEOUT_S = 30.0
_KILL_TIMEOUT_S = 30.0
# A node that fails to start has written far less.
_LOG_BYTES = 4 * 1024 * 1024
_COMPLAINT = re.compile(r"\b(?:ERROR|FATAL|error:)|Exception\b")


def complaints(log: Path, start: int = 0, lines: int = 8) -> str:
    """Return the part of a log that explains a failure: the first lines from byte `start` on with
    errors and exceptions, or the last lines if there are none. At most `lines` lines."""
    with log.open("rb") as stream:
        stream.seek(start)
        written = stream.read(_LOG_BYTES).decode(errors="replace").splitlines()
    chosen = [line for line in written if _COMPLAINT.search(line)][:lines] or written[-lines:]
    return "\n".join(chosen)


class GuardedProcess:
    """A running command with its output in a file. Thread-safe.

    The command and its whole process group are killed when this object is closed or this Python
    process ends for any reason, including SIGKILL. The command has its own session, so Ctrl-C in
    the terminal does not reach it.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        remove_if_orphaned: Path | None = None,
    ) -> None:
        """Start `command`, and append stdout and stderr to `log`. `remove_if_orphaned`: a directory
        that the guard deletes, with its parent if that is then empty, if this Python process dies
        without closing the command."""
        self.command = tuple(command)
        self.log = log
        options = ["--remove", str(remove_if_orphaned)] if remove_if_orphaned else []
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), *options, "--", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,
                env=None if environment is None else dict(environment),
                cwd=directory,
                start_new_session=True,
            )
        self._lock = threading.Lock()
        try:
            self.pid = self._read_pid()
        except ProcessFailed:
            self.close()
            raise

    def _read_pid(self) -> int:
        stdout = self._guard.stdout
        assert stdout is not None
        readable, _, _ = select.select([stdout], [], [], _START_TIMEOUT_S)
        line = os.read(stdout.fileno(), 64) if readable else b""
        if not line.endswith(b"\n"):
            raise ProcessFailed(f"Cannot start {self.command[0]}; see {self.log}")
        return int(line)

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal to the command, or to its whole process group. No effect if it has
        ended."""
        with self._lock:
            stdin = self._guard.stdin
            if stdin is None or stdin.closed or self._guard.poll() is not None:
                return
            try:
                stdin.write(b"%s %d\n" % (b"group" if group else b"process", number))
            except BrokenPipeError:
                return

    def poll(self) -> int | None:
        """Return the exit status, 128 + N after signal N; None while it runs."""
        return self._guard.poll()

    def running(self) -> bool:
        return self.poll() is None

    def wait(self, timeout_s: float) -> int:
        """Return the exit status once the command has ended. Raises `DeadlineExceeded` if it has
        not."""
        try:
            return self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            name = Path(self.command[0]).name
            raise DeadlineExceeded(
                f"{name} (process {self.pid}) did not end within {timeout_s:g} s"
            ) from None

    def stop(self, timeout_s: float = 30.0) -> int:
        """Send SIGTERM, and SIGKILL if it has not ended after `timeout_s`. Returns the exit
        status."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(timeout_s)
        except DeadlineExceeded:
            return self.kill()

    def kill(self) -> int:
        """Send SIGKILL to the whole process group. Returns the exit status."""
        self.signal(signal.SIGKILL, group=True)
        return self.wait(_KILL_TIMEOUT_S)

    def close(self) -> None:
        """Kill the command if it runs, and free all resources. May be called repeatedly."""
        deadline = Deadline(_KILL_TIMEOUT_S)
        with self._lock:
            for stream in (self._guard.stdin, self._guard.stdout):
                if stream is not None:
                    stream.close()
        self._guard.wait(deadline.remaining())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
