"""Packs the code that executors need into archives that can be sent to them.

* `pack_code`: our own pure Python packages, as a zip that executors import from.
* `pack_environment`: their dependencies, with a `bin/python` that runs the machine's own Python
  with them. It may be unpacked anywhere.

Both need the Python version of this program, such as 3.11. The dependencies also need its platform.
PySpark itself is not packed: executors have their cluster's.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import platform
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from connect.errors import ConfigError

__all__ = [
    "CODE_PACKAGES",
    "DISTRIBUTIONS",
    "cached_environment",
    "frame_distributions",
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
    "regex",
)
"""The distributions that code on executors imports (`connectors.mirror.audit.auditor`,
`connectors.mirror.copy.range_copier`), and their dependencies."""

_KERBEROS = ("gssapi", "decorator")
"""Of the extra `kerberos`, where it is installed. Executors need the system's libkrb5 only."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest date of zip files. A fixed date makes archives of the same content identical."""

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
    """Pack our packages into a zip in the directory `to`. Its name contains a hash of the
    content."""
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


def _needed(more: Iterable[str]) -> tuple[str, ...]:
    kerberos = _KERBEROS if _is_installed(_KERBEROS[0]) else ()
    return (*DISTRIBUTIONS, *kerberos, *more)


def frame_distributions() -> tuple[str, ...]:
    """Return what executors of Python data sources need besides: PyArrow, for Spark itself, and a
    client of the history's database."""
    drivers = ("psycopg", "psycopg-binary")
    return ("pyarrow", "sqlalchemy", "typing-extensions", *filter(_is_installed, drivers))


def cached_environment(cache: Path, more: Sequence[str] = ()) -> Path:
    """Return what `pack_environment` makes. It is built once per set of
    installed packages, and kept in `cache`."""
    versions = [f"{name}=={_distribution(name).version}" for name in _needed(more)]
    key = _short_hash(part.encode() for part in (*versions, sys.version, _launcher()))
    path = cache / "spark" / f"environment-{key}.tar.gz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pack_environment(path, more)
    return path


def pack_environment(to: Path, more: Iterable[str] = ()) -> None:
    """Write an archive of the distributions that executors need and of `more`, as installed here.

    Raises ConfigError if one is not installed, OSError if the archive cannot be written.
    """
    files: dict[str, Path] = {}
    for name in _needed(more):
        files.update(_installed(name))
    # Replace the file atomically, because other processes may build the same one now.
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
    """Yield a distribution's files with their paths relative to the packages directory."""
    distribution = _distribution(name)
    source = json.loads(distribution.read_text("direct_url.json") or "{}")
    if source.get("dir_info", {}).get("editable"):
        raise ConfigError(
            f"{name} is installed as editable; install it as a regular package to pack it"
        )
    for file in distribution.files or ():
        inside = PurePosixPath(file)
        # Scripts are outside the directory, and bytecode is compiled again.
        if ".." not in inside.parts and "__pycache__" not in inside.parts:
            yield str(inside), Path(str(distribution.locate_file(file)))


def _distribution(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"{name} is not installed here, so it cannot be packed") from None


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


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
