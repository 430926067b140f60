"""A PostgreSQL server of its own for a test, where the machine has one installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connect.config.types import SecretStr
from deploy.brokers import GuardedProcess
from deploy.brokers.ports import LOOPBACK
from tests.support.waiting import wait_until

__all__ = ["find_postgres", "running_postgres"]

_INSTALLED = Path("/usr/lib/postgresql")
_INIT_TIMEOUT_S = 60.0
_READY_TIMEOUT_S = 30.0


def find_postgres() -> Path | None:
    """The directory of the server's programs; None where there is no server."""
    candidates = [*_INSTALLED.glob("*/bin")] if _INSTALLED.is_dir() else []
    if found := shutil.which("initdb"):
        candidates.append(Path(found).resolve().parent)
    for directory in sorted(candidates, reverse=True):
        if (directory / "initdb").exists() and (directory / "postgres").exists():
            return directory
    return None


@contextmanager
def running_postgres(programs: Path, port: int) -> Iterator[SecretStr]:
    """A server with an empty database; gives its SQLAlchemy URL. The server refuses to be run by
    root, so root runs it as nobody."""
    with tempfile.TemporaryDirectory(prefix="postgresql-") as name:
        directory = Path(name)
        as_owner = _as_nobody(directory) if os.geteuid() == 0 else []
        data = directory / "data"
        subprocess.run(
            [*as_owner, str(programs / "initdb"), "-D", str(data), "-U", "mirror", "-A", "trust"],
            check=True,
            capture_output=True,
            timeout=_INIT_TIMEOUT_S,
            cwd="/",
        )
        server = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-h", LOOPBACK]
        options = ["-c", "unix_socket_directories=", "-c", "fsync=off"]
        with GuardedProcess([*as_owner, *server, *options], directory / "server.log") as process:
            _wait_until_ready(programs, port)
            yield SecretStr(f"postgresql+psycopg://mirror@{LOOPBACK}:{port}/postgres")
            process.stop()


def _as_nobody(directory: Path) -> list[str]:
    """What to put before a command for it to be run by nobody, who gets the directory."""
    nobody = pwd.getpwnam("nobody")
    os.chown(directory, nobody.pw_uid, nobody.pw_gid)
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]


def _wait_until_ready(programs: Path, port: int) -> None:
    ask = [str(programs / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(port), "-t", "5"]

    def ready() -> bool:
        return subprocess.run(ask, check=False, timeout=_READY_TIMEOUT_S).returncode == 0

    wait_until(ready, _READY_TIMEOUT_S, "PostgreSQL to answer")
