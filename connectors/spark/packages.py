"""What executors need of this program, as files that can be sent to them.

* `pack_code`: our own packages, pure Python, as a zip that executors import from.
* `pack_environment`: the compiled and other packages that they use, with a `bin/python` that finds
  the machine's own Python and runs it with them. It may be unpacked anywhere. Both halves need the
  Python version of this program, 3.11 for 3.11; the packages need its platform, too.

PySpark itself is not in it: executors have their cluster's.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import importlib.util
import io
import os
import platform
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from connect.errors import ConfigError

__all__ = [
    "CODE_PACKAGES",
    "DISTRIBUTIONS",
    "cached_environment",
    "pack_code",
    "pack_environment",
]

CODE_PACKAGES = ("connect", "connectors")
DISTRIBUTIONS = (
    "confluent-kafka",
    "cramjam",
    "crc32c",
    "cryptography",
    "cffi",
    "kafka-python",
)
"""What the code that runs on executors imports (`connectors.mirror.audit.auditor`,
`connectors.mirror.copy.range_copier`), and what that needs."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Same content, same bytes: of zip files the earliest date."""

_LAUNCHER = """\
#!/bin/sh
# Runs this machine's Python {version} with the packages beside this file.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
if [ "$(uname -s) $(uname -m)" != "{system}" ]; then
    echo "These packages are for {system}, this machine is $(uname -s) $(uname -m): make them" \\
        "with connect-spark-archive on one like it, and set spark.archives" >&2
    exit 1
fi
for python in python{version} {own}; do
    if command -v "$python" >/dev/null; then
        PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$here/packages" exec "$python" "$@"
    fi
done
echo "Executors need Python {version}, which is not in PATH ($PATH): install it, or set" \\
    "spark.executorEnv.PATH or spark.pyspark.python" >&2
exit 1
"""


def pack_code(to: Path) -> Path:
    """A zip of our packages in the directory `to`. Its name says what is in it."""
    files = {
        f"{name}/{relative.as_posix()}": path.read_bytes()
        for name in CODE_PACKAGES
        for path, relative in _sources(name)
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), files[name], zipfile.ZIP_DEFLATED)
    content = packed.getvalue()
    path = to / f"kafka-connect-mirror-{_short_hash([content])}.zip"
    path.write_bytes(content)
    return path


def _sources(package: str) -> Iterator[tuple[Path, Path]]:
    found = importlib.util.find_spec(package)
    assert found is not None
    for folder in found.submodule_search_locations or ():
        for path in Path(folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                yield path, path.relative_to(folder)


def cached_environment(cache: Path) -> Path:
    """`pack_environment` of DISTRIBUTIONS, made once for what is installed, and kept in `cache`."""
    versions = [f"{name}=={_distribution(name).version}" for name in DISTRIBUTIONS]
    key = _short_hash(part.encode() for part in (*versions, sys.version, _launcher()))
    path = cache / "spark" / f"environment-{key}.tar.gz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pack_environment(path)
    return path


def pack_environment(to: Path, more: Iterable[str] = ()) -> None:
    """Write the archive: the distributions that executors need, and `more`, as they are installed
    here. Raises ConfigError where one is not installed, OSError where it cannot be written."""
    files: dict[str, Path] = {}
    for name in (*DISTRIBUTIONS, *more):
        files.update(_installed(name))
    # Whole or not at all, also for others that make the same one now.
    descriptor, temporary = tempfile.mkstemp(dir=to.parent, prefix=f".{to.name}.")
    try:
        with os.fdopen(descriptor, "wb") as raw:
            _write(raw, files)
        os.chmod(temporary, 0o644)
        os.replace(temporary, to)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _write(raw: io.BufferedWriter, files: dict[str, Path]) -> None:
    with (
        gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        launcher = _launcher().encode()
        entry = tarfile.TarInfo("bin/python")
        entry.mode, entry.size = 0o755, len(launcher)
        archive.addfile(entry, io.BytesIO(launcher))
        for name in sorted(files):
            entry = tarfile.TarInfo(f"packages/{name}")
            entry.mode, entry.size = 0o644, files[name].stat().st_size
            with files[name].open("rb") as content:
                archive.addfile(entry, content)


def _installed(name: str) -> Iterator[tuple[str, Path]]:
    """A distribution's files, by their path beside other packages'."""
    distribution = _distribution(name)
    if '"editable": true' in (distribution.read_text("direct_url.json") or ""):
        raise ConfigError(f"{name} is installed as editable; install it as a package to pack it")
    for file in distribution.files or ():
        inside = PurePosixPath(file)
        # Programs are outside; compiled Python is made anew.
        if ".." not in inside.parts and "__pycache__" not in inside.parts:
            yield str(inside), Path(str(distribution.locate_file(file)))


def _distribution(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"{name} is not installed here, so it cannot be packed") from None


def _launcher() -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = Path(sys.base_prefix) / "bin" / f"python{version}"
    return _LAUNCHER.format(
        version=version, own=own, system=f"{platform.system()} {platform.machine()}"
    )


def _short_hash(parts: Iterable[bytes]) -> str:
    state = hashlib.sha256()
    for part in parts:
        state.update(part)
    return state.hexdigest()[:16]
