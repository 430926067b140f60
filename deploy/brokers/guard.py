"""Runs one command and takes it down when its owner goes away, however it goes.

A script of its own, started by `process.GuardedProcess`, never imported. It uses only the standard
library and starts with `-I -S`, so that it costs a few milliseconds and megabytes.

    guard.py [--remove DIRECTORY] -- COMMAND [ARGUMENT...]

* stdout: one line with the command's process id, then nothing.
* stdin: lines `process N` and `group N` send signal N to the command, or to its process group.
  End of file means that the owner is gone: the group is killed and DIRECTORY removed,
  with its parent if that is empty then.
* exit status: the command's own, or 128 + N when signal N ended it.

The pipe is what notices the owner's death, SIGKILL included, whichever thread started the guard.
Where the kernel can (Linux), the command also dies with the guard itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from types import FrameType

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def die_with_parent() -> None:
    """In the forked child: ask Linux for SIGKILL when the guard dies. The guard has one thread,
    so "parent thread" and "parent process" are the same here."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def send(pid: int, line: bytes) -> None:
    """Carry out one request of the owner. Safe from reuse of ids: the child is not yet reaped."""
    target, number = line.split()
    deliver = os.killpg if target == b"group" else os.kill
    try:
        deliver(pid, int(number))
    except ProcessLookupError:
        return


def serve(pid: int, wakeup: int) -> bool:
    """Obey the owner until the command has ended (True) or the owner is gone (False)."""
    pending = b""
    while True:
        readable, _, _ = select.select([0, wakeup], [], [])
        if wakeup in readable:
            os.read(wakeup, 4096)
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
        if 0 in readable:
            data = os.read(0, 4096)
            if not data:
                return False
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                send(pid, line)


def on_child(_signal: int, _frame: FrameType | None) -> None:
    """Present so that SIGCHLD is not ignored; the wakeup descriptor does the work."""


def main(arguments: list[str]) -> int:
    separator = arguments.index("--")
    options, command = arguments[:separator], arguments[separator + 1 :]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, on_child)
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=2,
        start_new_session=True,
        preexec_fn=die_with_parent if sys.platform == "linux" else None,
    )
    os.write(1, b"%d\n" % child.pid)
    os.close(1)
    ended = serve(child.pid, reader)
    # What is left of the group goes too, and before the leader is reaped, while its id is its own.
    send(child.pid, b"group %d" % signal.SIGKILL)
    status = child.wait()
    if not ended and options[:1] == ["--remove"]:
        import shutil

        shutil.rmtree(options[1], ignore_errors=True)
        with contextlib.suppress(OSError):  # siblings, or logs, are still in it
            os.rmdir(os.path.dirname(options[1]))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
