"""Images of deploy/container, built and run by buildah, in a storage of their own.

Their base is a Debian with its Python instead of the one that the file names, because a test does
not depend on a registry. Programs run under chroot, with the network of this machine and without
limits, as root may in any container.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from deploy.release import ROOT

__all__ = ["Images", "missing"]

_BASE = "localhost/python"
_BASE_FILE = """
    FROM scratch
    ADD tree.tar /
    ENV PATH=/usr/local/bin:/usr/bin:/bin
    RUN ln -s /usr/bin/python3 /usr/local/bin/python && python -m venv /opt/pip \\
        && ln -s /opt/pip/bin/pip /usr/local/bin/pip
"""
_PIP = "[global]\ncert = /etc/ssl/certs/ca-certificates.crt\ntimeout = 180\n"
_COMMAND_S, _BUILD_S = 120.0, 900.0
# Certificates of package indexes, as this machine has them.
_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


def missing() -> str | None:
    """Why this machine cannot build images; None if it can."""
    if os.geteuid() != 0:
        return "an image of a whole Debian needs root"
    if shutil.which("buildah") is None:
        return "buildah is not installed (apt-get install buildah)"
    return None


class Images:
    """Images and containers in a directory. The block ends with neither."""

    def __init__(self, tree: Path, directory: Path) -> None:
        """`tree`: the files of a Debian with Python. `directory`: an empty one, for everything."""
        self._tree = tree
        self._directory = directory
        self._buildah = [
            "buildah",
            f"--root={directory / 'storage'}",
            f"--runroot={directory / 'run'}",
        ]

    def __enter__(self) -> Self:
        base = self._directory / "base"
        base.mkdir()
        (base / "Containerfile").write_text(textwrap.dedent(_BASE_FILE).strip())
        # A build has devices of its own.
        pack = ["tar", "--create", f"--file={base / 'tree.tar'}", "--exclude=./dev/*"]
        subprocess.run([*pack, f"--directory={self._tree}", "."], check=True, timeout=_COMMAND_S)
        self._build(base / "Containerfile", base, _BASE)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(subprocess.SubprocessError):
            self.buildah("rm", "--all")
            self.buildah("rmi", "--all", "--force")
        shutil.rmtree(self._directory, ignore_errors=True)

    def buildah(self, *arguments: str, timeout_s: float = _COMMAND_S) -> str:
        """Run a command, and return what it printed. Raises AssertionError if it fails."""
        ended = subprocess.run(
            [*self._buildah, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-3000:]
        return ended.stdout

    def build(self, tag: str) -> str:
        """Build the image of this checkout anew. Returns the hashes of its layers."""
        file = ROOT / "deploy" / "container" / "Containerfile"
        bases = [f"--build-arg={name}={_BASE}" for name in ("PYTHON", "PYTHON_SLIM")]
        self._build(file, ROOT, tag, "--format=docker", "--timestamp=0", *bases)
        layers = "--format={{.Docker.RootFS.DiffIDs}}"
        return self.buildah("inspect", "--type=image", layers, tag).strip()

    def container(self, image: str) -> str:
        """Make a container, and return its name."""
        return self.buildah("from", image).strip()

    def command(self, container: str, program: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """The command that runs a program in a container as the image's user."""
        settings = [f"--env={name}={value}" for name, value in env.items()]
        run = ["run", "--isolation=chroot", "--network=host", *settings, container, "--"]
        return [*self._buildah, *run, *program]

    def _build(self, file: Path, context: Path, tag: str, *options: str) -> None:
        settings = self._directory / "pip.conf"
        settings.write_text(_PIP)
        mounts = [f"--volume={settings}:/etc/pip.conf:ro"]
        if _BUNDLE.exists():
            mounts.append(f"--volume={_BUNDLE}:{_BUNDLE}:ro")
        how = ["--isolation=chroot", "--network=host", "--no-cache", "--quiet", *mounts, *options]
        self.buildah(
            "build", *how, f"--file={file}", f"--tag={tag}", str(context), timeout_s=_BUILD_S
        )
