"""`python -m deploy.release`: build the sdist and the wheels of the last commit, and check them.

All go to `dist/`. One wheel installs everywhere and has no compiled part; the other, for this
platform, has it, and is left out if there is no C compiler. Both are built from the sdist. The
first is installed with its dependencies into a new virtual environment without the checkout, where
every command must run, also after the second was installed over it. Exit status 0 if everything
worked; otherwise 1, after one sentence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from connect.errors import ConnectError

__all__ = [
    "ReleaseError",
    "build_sdist",
    "build_wheel",
    "check_commands",
    "check_wheel",
    "has_compiled_part",
    "main",
]

ROOT = Path(__file__).parents[1]

PACKAGES = frozenset({"api", "connect", "connectors"})
"""The packages that the wheel may install, besides its metadata."""

# Time limit of a step. Some download up to 500 MB.
STEP_TIMEOUT_S = 1800.0

_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


_HAS_NATIVE = "from connect.protocol import _native; from connect.data import _native"


class ReleaseError(ConnectError):
    """The release cannot be built, or a check failed. The message is one sentence."""


def build_sdist(source: Path, to: Path) -> Path:
    """Build the sdist with this Python's setuptools and return its path in the directory `to`.
    `source`: the sources, which may be written to."""
    to.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-c", _SDIST, str(to)], "building the sdist", cwd=source)
    return _only(to, "*.tar.gz")


def build_wheel(sdist: Path, to: Path, *, compiled: bool = False) -> Path:
    """Build a wheel from the sdist, offline, and return its path in the directory `to`. `compiled`:
    for this platform, with the compiled part if there is a C compiler (`has_compiled_part`)."""
    command = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(to)]
    environment = {**os.environ, "PURE": "0" if compiled else "1"}
    _run([*_pip(sys.executable), *command, str(sdist)], "building the wheel", env=environment)
    return _only(to, "*-abi3-*.whl" if compiled else "*-py3-none-any.whl")


def has_compiled_part(wheel: Path) -> bool:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    return all(
        any(name.startswith(f"connect/{package}/_native.abi3") for name in names)
        for package in ("data", "protocol")
    )


def check_wheel(wheel: Path, version: str) -> list[str]:
    """Check the wheel's version, packages, licence and absence of other files. Returns the names of
    its commands. Raises `ReleaseError`."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        folder = f"kafka_connect_mirror-{version}.dist-info"
        found = {name.partition("/")[0] for name in names}
        if found != {*PACKAGES, folder}:
            odd = ", ".join(sorted(found ^ {*PACKAGES, folder}))
            raise ReleaseError(f"{wheel.name} has missing or unexpected entries: {odd}")
        for name in ("LICENSE", "NOTICE"):
            if f"{folder}/licenses/{name}" not in names:
                raise ReleaseError(f"{wheel.name} has no {name}")
        text = archive.read(f"{folder}/entry_points.txt").decode()
    section = text.partition("[console_scripts]")[2].partition("\n[")[0]
    return [line.partition("=")[0].strip() for line in section.splitlines() if "=" in line]


def check_commands(
    bin_directory: Path, commands: Sequence[str], version: str, environment: Mapping[str, str]
) -> None:
    """Check that each installed command responds to --version and --help, even in a directory with
    packages that are named like ours, which must not be run. Raises `ReleaseError`."""
    with tempfile.TemporaryDirectory() as directory:
        for package in PACKAGES:
            trap = Path(directory, package, "__init__.py")
            trap.parent.mkdir()
            trap.write_text("raise RuntimeError('run from the working directory')\n")
        for command in commands:
            program = str(bin_directory / command)
            told = _run([program, "--version"], command, cwd=directory, env=environment)
            if not told.startswith(f"{command} {version} "):
                raise ReleaseError(
                    f"{command} --version prints {told.strip()} instead of {version}"
                )
            helped = _run([program, "--help"], command, cwd=directory, env=environment)
            if f"usage: {command}" not in helped:
                raise ReleaseError(f"{command} --help prints {helped.strip()}")


def main() -> int:
    """Run the program and return its exit code."""
    try:
        with tempfile.TemporaryDirectory(prefix="release-") as directory:
            _release(Path(directory), ROOT / "dist")
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _release(work: Path, dist: Path) -> None:
    _export(work / "source")
    version = _version(work / "source")
    print(f"Building {version} from the last commit")
    sdist = build_sdist(work / "source", work / "dist")
    wheel = build_wheel(sdist, work / "dist")
    commands = check_wheel(wheel, version)
    print("Installing the wheel into a new environment")
    _run([sys.executable, "-m", "venv", str(work / "venv")], "creating an environment")
    python = str(work / "venv" / "bin" / "python")
    alone = _without_checkout()
    install = [*_pip(python), "install", "--quiet", str(wheel)]
    _run(install, "installing the wheel", cwd=work, env=alone)
    _run([*_pip(python), "check"], "checking the dependencies", cwd=work, env=alone)
    check_commands(work / "venv" / "bin", commands, version, alone)
    built = [sdist, wheel]
    compiled = build_wheel(sdist, work / "dist", compiled=True)
    if has_compiled_part(compiled):
        check_wheel(compiled, version)
        install = [*_pip(python), "install", "--quiet", "--no-deps", "--force-reinstall"]
        _run([*install, str(compiled)], "installing the compiled wheel", cwd=work, env=alone)
        _run([python, "-c", _HAS_NATIVE], "importing the compiled part", cwd=work, env=alone)
        check_commands(work / "venv" / "bin", commands, version, alone)
        built.append(compiled)
    else:
        print("Without a C compiler there is no wheel with the compiled part")
    dist.mkdir(exist_ok=True)
    for made in built:
        shutil.copy(made, dist)
        print(f"Made {dist.name}/{made.name} ({made.stat().st_size / 1e6:.1f} MB)")
    print(f"{len(commands)} commands run in a new environment")


def _export(to: Path) -> None:
    """Write the last commit into the new directory `to`."""
    archive = to.with_suffix(".tar")
    if _run(["git", "status", "--porcelain", "--untracked-files=no"], "git status", cwd=ROOT):
        raise ReleaseError("there are uncommitted changes: commit or stash them")
    _run(["git", "archive", "--output", str(archive), "HEAD"], "git archive", cwd=ROOT)
    to.mkdir()
    _run(["tar", "--extract", "--file", str(archive), "--directory", str(to)], "tar")


def _version(source: Path) -> str:
    project = tomllib.loads((source / "pyproject.toml").read_text())
    module, _, name = project["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    code = f"import {module} as module; print(module.{name})"
    return _run([sys.executable, "-c", code], "reading the version", cwd=source).strip()


def _without_checkout() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def _pip(python: str) -> list[str]:
    return [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def _only(directory: Path, pattern: str) -> Path:
    found = list(directory.glob(pattern))
    if len(found) != 1:
        raise ReleaseError(f"{directory} has {len(found)} files {pattern} instead of one")
    return found[0]


def _run(
    command: Sequence[str],
    step: str,
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a command and return its stdout. Raises `ReleaseError` if it fails."""
    try:
        ended = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReleaseError(f"{step} failed: {error}") from error
    if ended.returncode != 0:
        said = (ended.stderr.strip() or ended.stdout.strip() or "nothing").splitlines()[-1]
        raise ReleaseError(f"{step} failed with exit code {ended.returncode}: {said}")
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
