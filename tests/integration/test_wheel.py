"""The wheel alone: what is in it, and its commands without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from connect.version import VERSION
from deploy.release import (
    build_sdist,
    build_wheel,
    check_commands,
    check_wheel,
    has_compiled_part,
)
from tests.support.copied_source import copied_source

INSTALL_S = 120.0

# Some 15 s of CPU: minutes where the machine is busy.
pytestmark = pytest.mark.timeout(600)


def test_its_commands_run_without_the_checkout_and_nothing_of_the_working_directory(
    tmp_path: Path,
) -> None:
    wheel = build_wheel(_sdist(tmp_path), tmp_path / "dist")
    commands = check_wheel(wheel, VERSION)
    assert not has_compiled_part(wheel)
    installed = _environment_with(wheel, tmp_path / "venv")

    assert len(commands) >= 7
    without_checkout = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    check_commands(installed, commands, VERSION, without_checkout)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_wheel_for_this_platform_has_the_compiled_part_and_not_its_sources(
    tmp_path: Path,
) -> None:
    wheel = build_wheel(_sdist(tmp_path), tmp_path / "dist", compiled=True)
    check_wheel(wheel, VERSION)
    assert has_compiled_part(wheel)
    with zipfile.ZipFile(wheel) as archive:
        assert [name for name in archive.namelist() if name.endswith((".c", ".h"))] == []


def _sdist(directory: Path) -> Path:
    source = copied_source(directory / "source")
    sdist = build_sdist(source, directory / "dist")
    shutil.rmtree(source)
    return sdist


def _environment_with(wheel: Path, directory: Path) -> Path:
    """A new environment with the wheel, and with what it depends on from this Python's; its
    folder of commands. This Python's path is added as it is: its own .pth files, of which one
    leads to the checkout, are not read there."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(directory)],
        check=True,
        timeout=INSTALL_S,
    )
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python"), *install],
        check=True,
        timeout=INSTALL_S,
    )
    return directory / "bin"
