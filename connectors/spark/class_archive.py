"""An archive of the classes that a local driver loads, from which its later JVMs map them.

Java calls it class data sharing. Spark loads some ten thousand classes before its first job, which
costs half of its start. A JVM ignores an archive that was made with another Java, other jars or
another class path. `make_class_archive.py` makes it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyspark

__all__ = ["MAKE", "class_archive", "using"]

MAKE = "-XX:ArchiveClassesAtExit="
"""The option of a JVM that makes an archive; the path follows."""


def class_archive(java: Path, home: Path, cache: Path) -> Path:
    """Return where the archive for this Java and this Spark is, whether or not it exists."""
    parts = (str(java.resolve()), str(home.resolve()), pyspark.__version__)
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache / "spark" / f"driver-classes-{key}.jsa"


def using(archive: Path, options: str) -> list[str]:
    """Return the options of a JVM that has these and uses the archive; none without an archive."""
    # One JVM cannot both use an archive and make one.
    if MAKE in options or not archive.is_file():
        return []
    return [f"-XX:SharedArchiveFile={archive}"]
