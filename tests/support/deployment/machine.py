"""A fresh Debian machine with systemd as its first process, in a container of systemd-nspawn.

It has the network of this machine, so that it reaches brokers on loopback and the package index.
Its processes, mounts and files end with the block.

    with Machine(debian(cache), tmp_path) as machine:
        machine.run("systemctl is-system-running --wait", codes=(0, 1))
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from connect.errors import DeadlineExceeded
from deploy.brokers import GuardedProcess
from tests.support.waiting import wait_until

__all__ = ["Machine", "debian", "missing"]

RELEASE = "bookworm"
PACKAGES = ("systemd", "systemd-sysv", "dbus", "ca-certificates", "python3", "python3-venv")
_DEBOOTSTRAP_S = 900.0
_COPY_S = 300.0
_BOOT_S = 90.0
_STOP_S = 60.0
_RUN_S = 120.0
# What nspawn ends with when the machine asks for a reboot and a supervisor is to do it.
_REBOOT = 133
# Certificates of package indexes, as this machine has them.
_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


def missing() -> str | None:
    """Why this machine cannot have machines in it; None if it can."""
    if os.geteuid() != 0:
        return "a machine in a container needs root"
    for program, package in (("systemd-nspawn", "systemd-container"), ("debootstrap",) * 2):
        if shutil.which(program) is None:
            return f"{program} is not installed (apt-get install {package})"
    return None


def debian(cache: Path) -> Path:
    """The files of a freshly installed Debian, made once and kept. Raises `CalledProcessError`."""
    tree = cache / f"debian-{RELEASE}"
    if not tree.exists():
        made = tree.with_name(f"{tree.name}.{os.getpid()}")
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", RELEASE]
        try:
            subprocess.run(
                [*command, str(made)], check=True, capture_output=True, timeout=_DEBOOTSTRAP_S
            )
            try:
                made.rename(tree)
            except OSError:
                if not tree.exists():  # Otherwise another process of the tests was faster.
                    raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return tree


class Machine:
    """A copy of a tree of files, booted. `run` runs commands as its root."""

    def __init__(self, tree: Path, directory: Path, binds: Collection[Path] = ()) -> None:
        """`directory`: gets its files and its console; `binds`: directories of this machine that
        it has, too."""
        self.root = directory / "root"
        self.console = directory / "console.log"
        self._tree = tree
        self._name = f"mirror-test-{os.getpid()}"
        self._binds = binds
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        # With its devices, as shutil cannot.
        copy = ["cp", "--archive", str(self._tree), str(self.root)]
        subprocess.run(copy, check=True, timeout=_COPY_S)
        # As Debian's installer does.
        name = (self.root / "etc" / "hostname").read_text().strip()
        (self.root / "etc" / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
        if _BUNDLE.exists():
            shutil.copy(_BUNDLE, self.root / _BUNDLE.relative_to("/"))
        try:
            self._boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            with suppress(DeadlineExceeded, subprocess.SubprocessError, LookupError, OSError):
                self.run("systemctl poweroff", codes=range(256))
                self._process.wait(_STOP_S)
            self._process.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def run(
        self,
        command: str,
        *,
        directory: str = "/root",
        environment: Mapping[str, str] | None = None,
        codes: Collection[int] = (0,),
        timeout_s: float = _RUN_S,
    ) -> str:
        """Run a shell command in it, and return what it printed. Raises AssertionError if the exit
        code is not in `codes`."""
        enter = ["nsenter", f"--target={self._first()}", "--mount", "--pid", "--ipc", "--uts"]
        settings = [f"{name}={value}" for name, value in (environment or {}).items()]
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        clean = ["env", "-i", path, "HOME=/root", "LANG=C.UTF-8", *settings]
        ended = subprocess.run(
            [*enter, "--root", "--wd", *clean, "sh", "-ec", f"cd {directory}; {command}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert ended.returncode in codes, f"{command}: {ended.returncode}\n{ended.stdout}"
        return ended.stdout

    def reboot(self) -> None:
        """Have it shut down its services, and boot again."""
        assert self._process is not None
        self.run("systemctl reboot", codes=range(256))
        ended = self._process.wait(_STOP_S)
        assert ended == _REBOOT, f"ended with {ended}; see {self.console}"
        self._process.close()
        self._boot()

    def _boot(self) -> None:
        self._process = GuardedProcess(
            [
                "systemd-nspawn",
                "--quiet",
                "--boot",
                # This machine may have no systemd that could know it.
                "--register=no",
                "--keep-unit",
                "--console=pipe",
                f"--machine={self._name}",
                f"--directory={self.root}",
                *(f"--bind={path}" for path in self._binds),
            ],
            self.console,
        )
        wait_until(self._booted, _BOOT_S, f"the machine runs ({self.console})")

    def _booted(self) -> bool:
        assert self._process is not None
        assert self._process.running(), f"it did not boot: {self.console.read_text()[-2000:]}"
        with suppress(AssertionError, subprocess.TimeoutExpired, LookupError):
            state = self.run("systemctl is-system-running", codes=range(256)).strip()
            return state in {"running", "degraded"}
        return False

    def _first(self) -> int:
        """The machine's first process, as this machine counts."""
        assert self._process is not None
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        children = path.read_text().split()
        if not children:
            raise LookupError("the machine has no process yet")
        return int(children[0])
