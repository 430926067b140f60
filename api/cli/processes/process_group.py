"""Several worker processes of one command: started, watched, restarted and stopped together.

The children run the same program with the same properties. A child that ends is restarted, with a
growing backoff while it keeps ending soon. `request_stop` and `kill` send signals to the children.
Parent and child hold the ends of a pipe, so that a child can stop when the parent dies:
`watch_parent` reports when the parent's end closes.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Callable, Sequence

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.loop import Backoff

__all__ = ["PARENT_PIPE", "ProcessGroup", "watch_parent"]

log = logging.getLogger(__name__)

PARENT_PIPE = "CONNECT_PARENT_PIPE"
"""Environment variable with the number of the pipe's file descriptor in a child."""

RESTART_FIRST_S, RESTART_CAP_S = 1.0, 60.0
LIVED_LONG_S = 60.0
"""A child that ran this long started successfully, so its next backoff is short again."""

_KILL_S = 5.0


class ProcessGroup:
    """Owned by one thread, which calls every method except `kill`."""

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        clock: Clock = SYSTEM_CLOCK,
        backoff_s: tuple[float, float] = (RESTART_FIRST_S, RESTART_CAP_S),
    ) -> None:
        """Define one child per command, without starting it."""
        self._clock = clock
        self._pipe = os.pipe()
        self._children = [
            _Child(number, command, self._pipe[0], clock, Backoff(*backoff_s))
            for number, command in enumerate(commands, start=1)
        ]

    def start(self) -> None:
        """Start all children. Raises OSError if the program cannot be run."""
        for child in self._children:
            child.start()

    @property
    def pids(self) -> list[int | None]:
        """Return the process IDs of the running children."""
        return [child.pid for child in self._children]

    def check(self) -> None:
        """Restart the children that have ended and whose wait is over. Call about once a second."""
        for child in self._children:
            child.check()

    def signal(self, number: int) -> None:
        """Pass a signal on to all running children."""
        for pid in self.pids:
            if pid is not None:
                os.kill(pid, number)

    def ended(self) -> int | None:
        """Return the exit code of a child that ended by itself; None while all run. For groups
        whose children are not restarted: their owner does not call `check`."""
        codes = (child.code for child in self._children)
        return next((code for code in codes if code is not None), None)

    def stop(self, deadline: Deadline) -> bool:
        """Ask all children to stop, wait, and kill those that do not. Returns whether all of them
        ended without being killed, with exit code 0."""
        for child in self._children:
            child.request_stop()
        well = [child.join(deadline) for child in self._children]
        for end in self._pipe:
            os.close(end)
        return all(well)

    def kill(self) -> None:
        """Kill all children at once. Safe in a signal handler."""
        for child in self._children:
            child.kill()


class _Child:
    def __init__(
        self, number: int, command: Sequence[str], pipe: int, clock: Clock, backoff: Backoff
    ) -> None:
        self._number = number
        self._command = list(command)
        self._pipe = pipe
        self._clock = clock
        self._backoff = backoff
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._restart_at: float | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        self._restart_at = None
        self._started_at = self._clock.monotonic()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            pass_fds=(self._pipe,),
            env={**os.environ, PARENT_PIPE: str(self._pipe)},
        )
        log.info("worker process %d started with pid %d", self._number, self._process.pid)

    def check(self) -> None:
        now = self._clock.monotonic()
        if self._restart_at is not None:
            if now >= self._restart_at:
                self.start()
            return
        code = self.code
        if code is None:
            return
        if now - self._started_at >= LIVED_LONG_S:
            self._backoff.reset()
        wait = self._backoff.next()
        self._restart_at = now + wait
        log.error(
            "worker process %d exited with code %d; restarting it in %.1f s",
            self._number,
            code,
            wait,
        )

    def request_stop(self) -> None:
        self._restart_at = None
        if self._process is not None:
            self._process.terminate()

    def join(self, deadline: Deadline) -> bool:
        process = self._process
        if process is None:
            return True
        try:
            return process.wait(deadline.remaining()) == 0
        except subprocess.TimeoutExpired:
            log.warning("worker process %d did not stop in time; killing it", self._number)
            process.kill()
            process.wait(_KILL_S)
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def watch_parent(on_end: Callable[[], None]) -> None:
    """In a child: call `on_end` on a thread when the parent has ended. Does nothing outside a
    child."""
    number = os.environ.pop(PARENT_PIPE, None)
    if number is None or not number.isdigit():
        return

    def wait(descriptor: int) -> None:
        # The parent never writes, so the read returns only when the parent's end closes.
        os.read(descriptor, 1)
        on_end()

    threading.Thread(target=wait, args=(int(number),), name="parent", daemon=True).start()
