"""Child processes that cannot outlive their owner.

`GuardedProcess` starts a command under `guard.py`. Every signal goes through the guard, which is
the command's parent and so never hits a process id that was given to somebody else meanwhile.
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
from types import TracebackType
from typing import Self

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from deploy.brokers.errors import ProcessFailed

__all__ = ["GuardedProcess", "complaints"]

_GUARD = Path(__file__).with_name("guard.py")
# The guard forks and answers at once; this only bounds a machine that is badly overloaded.
_START_TIMEOUT_S = 30.0
_KILL_TIMEOUT_S = 30.0
# A node that fails to start has written far less.
_LOG_BYTES = 4 * 1024 * 1024
_COMPLAINT = re.compile(r"\b(?:ERROR|FATAL|error:)|Exception\b")


def complaints(log: Path, start: int = 0, lines: int = 8) -> str:
    """What a log says about a failure from byte `start` on: its first lines about errors and
    exceptions, or its last lines where there are none. At most `lines`."""
    with log.open("rb") as stream:
        stream.seek(start)
        written = stream.read(_LOG_BYTES).decode(errors="replace").splitlines()
    chosen = [line for line in written if _COMPLAINT.search(line)][:lines] or written[-lines:]
    return "\n".join(chosen)


class GuardedProcess:
    """A running command with its output in a file. Thread-safe.

    It is killed, with its whole process group, when this object is closed or when this Python
    process ends in any way, SIGKILL included. It has a session of its own, so a Ctrl-C in the
    terminal does not reach it.
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
        """Start `command`, appending stdout and stderr to `log`. `remove_if_orphaned`: a directory
        that the guard deletes, with its parent if that is empty then, should this Python process
        die without closing the command."""
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
            raise ProcessFailed(f"{self.command[0]} could not be started; see {self.log}")
        return int(line)

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal to the command, or to its whole process group. No error if it has ended."""
        with self._lock:
            stdin = self._guard.stdin
            if stdin is None or stdin.closed or self._guard.poll() is not None:
                return
            try:
                stdin.write(b"%s %d\n" % (b"group" if group else b"process", number))
            except BrokenPipeError:
                return

    def poll(self) -> int | None:
        """The exit status, 128 + N after signal N; None while it runs."""
        return self._guard.poll()

    def running(self) -> bool:
        return self.poll() is None

    def wait(self, timeout_s: float) -> int:
        """The exit status once the command has ended; `DeadlineExceeded` when it goes on."""
        try:
            return self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            name = Path(self.command[0]).name
            raise DeadlineExceeded(
                f"{name} (process {self.pid}) did not end within {timeout_s:g} s"
            ) from None

    def stop(self, timeout_s: float = 30.0) -> int:
        """SIGTERM, then SIGKILL if it has not ended after `timeout_s`. Returns the exit status."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(timeout_s)
        except DeadlineExceeded:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL to the whole process group. Returns the exit status."""
        self.signal(signal.SIGKILL, group=True)
        return self.wait(_KILL_TIMEOUT_S)

    def close(self) -> None:
        """Kill what still runs and free everything. May be called again."""
        deadline = Deadline(_KILL_TIMEOUT_S)
        with self._lock:
            for stream in (self._guard.stdin, self._guard.stdout):
                if stream is not None:
                    stream.close()
        self._guard.wait(deadline.remaining())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
