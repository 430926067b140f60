"""The wheel alone: what is in it, and its commands without the checkout."""

from __future__ import annotations

import os
import shutil
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
from tests.support.deployment.copied_source import copied_source
from tests.support.deployment.installed import environment_with

# Some 15 s of CPU: minutes where the machine is busy.
pytestmark = pytest.mark.timeout(600)


def test_its_commands_run_without_the_checkout_and_nothing_of_the_working_directory(
    tmp_path: Path,
) -> None:
    wheel = build_wheel(_sdist(tmp_path), tmp_path / "dist")
    commands = check_wheel(wheel, VERSION)
    assert not has_compiled_part(wheel)
    installed = environment_with(wheel, tmp_path / "venv")

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
