"""Wheels in environments of their own: of this checkout, and of an earlier commit."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from deploy.release import ROOT, build_sdist, build_wheel

__all__ = ["environment_with", "version_before"]

BEFORE = "022fc2a7cb645d72d904d56eebc9b333081ddbed"
"""A commit of the main branch that stands for the previous version."""

_INSTALL_S = 120.0


def environment_with(wheel: Path, directory: Path) -> Path:
    """A new environment with the wheel, and with what it depends on from this Python's; its
    folder of commands. This Python's path is added as it is: its own .pth files, of which one
    leads to the checkout, are not read there."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(directory)],
        check=True,
        timeout=_INSTALL_S,
    )
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python"), *install],
        check=True,
        timeout=_INSTALL_S,
    )
    return directory / "bin"


def version_before(directory: Path) -> Path:
    """The folder of commands of the previous version, built from its commit and installed. Skips
    the test where the history is not there, as in a shallow clone."""
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run(
        [*git, "cat-file", "-e", f"{BEFORE}^{{commit}}"], capture_output=True, check=False
    )
    if known.returncode != 0:
        pytest.skip(f"commit {BEFORE[:8]} is not in this clone: fetch the whole history")
    source, archive = directory / "source", directory / "source.tar"
    source.mkdir(parents=True)
    subprocess.run([*git, "archive", "--output", str(archive), BEFORE], check=True)
    subprocess.run(["tar", "-xf", str(archive), "-C", str(source)], check=True)
    wheel = build_wheel(build_sdist(source, directory / "dist"), directory / "dist")
    commands = environment_with(wheel, directory / "environment")
    code = "import connect; print(connect.__file__)"
    run = [str(commands / "python"), "-c", code]
    imported = subprocess.run(run, cwd=directory, capture_output=True, text=True, check=True)
    assert Path(imported.stdout).is_relative_to(directory), imported.stdout
    return commands
