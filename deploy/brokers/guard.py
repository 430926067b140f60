"""Runs one command, and kills it when its owner ends for any reason.

`process.GuardedProcess` starts this file as a script; it is never imported. It uses only the
standard library and runs with `-I -S`, so it costs a few milliseconds and megabytes.

    guard.py [--remove DIRECTORY] -- COMMAND [ARGUMENT...]

* stdout: one line with the command's process ID, then nothing.
* stdin: a line `process N` or `group N` sends signal N to the command or its process group. End of
  file means that the owner has ended: the group is killed, and DIRECTORY is removed, with its
  parent if that is then empty.
* exit status: the command's own, or 128 + N if signal N ended it.

The pipe detects the owner's death, even by SIGKILL, whichever thread started the guard. On Linux
the kernel also kills the command when the guard itself dies.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from types import FrameType

PR_SET_PDEATHSIG = 1  # PR_SET_PDEATHSIG in <linux/prctl.h>


def die_with_parent() -> None:
    """In the forked child: ask Linux for SIGKILL when the guard dies. The guard has one thread, so
    the kernel's "parent thread" is the parent process."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def send(pid: int, line: bytes) -> None:
    """Carry out one request of the owner. The process ID cannot have been reused, because the child
    is not reaped yet."""
    target, number = line.split()
    deliver = os.killpg if target == b"group" else os.kill
    try:
        deliver(pid, int(number))
    except ProcessLookupError:
        return


def serve(pid: int, wakeup: int) -> bool:
    """Serve the owner until the command has ended (True) or the owner is gone (False)."""
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
    """Do nothing. Without a handler SIGCHLD would be ignored, and the wakeup descriptor would not
    be written."""


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
    # Kill the rest of the group before its leader is reaped, because its ID cannot be reused until
    # then.
    send(child.pid, b"group %d" % signal.SIGKILL)
    status = child.wait()
    if not ended and options[:1] == ["--remove"]:
        import shutil

        shutil.rmtree(options[1], ignore_errors=True)
        with contextlib.suppress(OSError):  # Other clusters or logs are still in it.
            os.rmdir(os.path.dirname(options[1]))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
