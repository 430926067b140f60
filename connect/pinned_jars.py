"""Reads lock files of Java archives: which ones, in which version, with which SHA-256. Pure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PinnedJar", "read_lock"]


@dataclass(frozen=True, slots=True)
class PinnedJar:
    """One pinned jar. `size` in bytes, `sha256` in lower-case hexadecimal."""

    group: str
    name: str
    version: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    @property
    def url_path(self) -> str:
        """Return the path below a Maven repository's base URL."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file_name}"


def read_lock(text: str) -> tuple[PinnedJar, ...]:
    """Parse a lock file: `group:artifact:version sha256 size` per line, `#` starts a comment.
    Raises `ValueError` with a sentence."""
    jars = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].split()
        if not content:
            continue
        try:
            coordinates, sha256, size = content
            group, name, version = coordinates.split(":")
            jars.append(PinnedJar(group, name, version, sha256, int(size)))
        except ValueError:
            raise ValueError(
                f"Invalid line {number} of the lock file, expected `group:artifact:version "
                f"sha256 size`: {line!r}"
            ) from None
    return tuple(jars)
