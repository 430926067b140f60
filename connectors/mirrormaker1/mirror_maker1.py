"""MirrorMaker 1: the mirrors of all sources, each on its own thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from connect.clock import Deadline
from connectors.mirrormaker1.settings import MirrorSettings, SourceFile
from connectors.mirrormaker1.source_mirror import SourceMirror

__all__ = ["MirrorMaker1"]


class MirrorMaker1:
    """Mirrors several sources into one target. Owned by the main thread."""

    def __init__(self, sources: Sequence[SourceFile], settings: MirrorSettings) -> None:
        """Check all properties. Raises `ConfigError`."""
        self._mirrors = [SourceMirror(source, settings) for source in sources]
        self._threads = [
            threading.Thread(target=mirror.run, name=f"mirror-{mirror.name}", daemon=True)
            for mirror in self._mirrors
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def failure(self) -> str | None:
        """Return why a mirror ended by itself; None if all run."""
        for mirror, thread in zip(self._mirrors, self._threads, strict=True):
            if not thread.is_alive():
                return f"{mirror.name}: {mirror.failure or 'ended'}"
        return None

    def stop(self, deadline: Deadline) -> bool:
        """End all mirrors; each commits its last offsets. Returns whether all ended in time without
        a failure."""
        for mirror in self._mirrors:
            mirror.stop()
        for thread in self._threads:
            thread.join(deadline.remaining())
        return not any(
            thread.is_alive() or mirror.failure
            for mirror, thread in zip(self._mirrors, self._threads, strict=True)
        )
