"""The directory of an archive: its ledger, and the files that the ledger names.

    archive.json           the cluster whose records it has
    ledger/<version>.json  the commits (`ledger.py`)
    data/topic=.../partition=.../<first>-<end>.parquet
    _staging/              files that are not committed yet

A commit's files are first written to the staging folder, then the commit is published, then they
are moved into `data`. So `data` never has a record that the ledger does not have, wherever a crash
stops it; opening the directory completes the moves of the last commit, and deletes the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from connect.clock import SYSTEM_CLOCK, Clock
from connectors.archive.errors import AnotherArchive, DamagedArchive, NotThisCluster
from connectors.archive.files import ArchiveFiles
from connectors.archive.ledger import (
    FORMAT_VERSION,
    ArchivedRange,
    ArchivedTopic,
    Commit,
    Ledger,
    version_file,
    version_of,
)

__all__ = ["STAGING", "ArchiveStore"]

STAGING = "_staging"
_ABOUT = "archive.json"
_LEDGER = "ledger"


class ArchiveStore:
    """An opened archive. For one thread."""

    def __init__(
        self, files: ArchiveFiles, about: Mapping[str, object], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.files = files
        self.about = about
        self._clock = clock
        self._last: Commit | None = None
        self.ledger = Ledger()
        for name in files.names(_LEDGER):
            if version_of(name) is not None:
                self._last = Commit.of_text(files.read(f"{_LEDGER}/{name}"), name)
                self.ledger.take(self._last)

    @classmethod
    def open(cls, files: ArchiveFiles, cluster: str, alias: str) -> ArchiveStore:
        """Open an archive to add to it; create it if the directory is empty. Call it under the lock
        of the flow's archive. `cluster`: the ID of the source cluster; `alias`: its name, for
        people. Raises `NotThisCluster`, `DamagedArchive`."""
        if not files.exists(_ABOUT):
            if files.names("data") or files.names(_LEDGER):
                raise DamagedArchive(
                    f"{files.root} has data but no {_ABOUT}: restore it from a copy of the "
                    "directory, or archive to an empty one"
                )
            about = {"format": FORMAT_VERSION, "cluster_id": cluster, "alias": alias}
            files.publish(_ABOUT, json.dumps(about) + "\n")
        store = cls.read(files)
        store._check_cluster(cluster, alias)
        store.recover()
        return store

    @classmethod
    def look(cls, files: ArchiveFiles, cluster: str, alias: str) -> Ledger:
        """Return the ledger to which `open` would add, and change nothing. Raises as `open`."""
        if not files.exists(_ABOUT):
            return Ledger()
        store = cls.read(files)
        store._check_cluster(cluster, alias)
        return store.ledger

    @classmethod
    def read(cls, files: ArchiveFiles) -> ArchiveStore:
        """Open an archive to read it. Raises `DamagedArchive`."""
        if not files.exists(_ABOUT):
            raise DamagedArchive(
                f"{files.root} is not an archive: it has no {_ABOUT}. Name the directory that "
                "connect-mirror-archive --to wrote"
            )
        try:
            about = json.loads(files.read(_ABOUT))
            assert isinstance(about["cluster_id"], str)
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise DamagedArchive(
                f"{files.path(_ABOUT)} cannot be read ({error!r}): restore it from a copy"
            ) from error
        return cls(files, about)

    def _check_cluster(self, cluster: str, alias: str) -> None:
        if self.about["cluster_id"] != cluster:
            raise NotThisCluster(
                f"{self.files.root} has records of the cluster {self.about['cluster_id']} "
                f"({self.about['alias']}), not of {cluster} ({alias}): archive to another "
                "directory"
            )

    def recover(self) -> None:
        """Complete the moves of the last commit, and delete files that were never committed."""
        if self._last is not None:
            self._move(self._last)
        self.files.delete(STAGING)

    def commit(
        self,
        ranges: Sequence[ArchivedRange],
        topics: Mapping[str, ArchivedTopic],
        staged: Mapping[str, str],
    ) -> None:
        """Add these ranges to the archive. `staged`: where their files are now, by their final
        names. Raises `AnotherArchive` if another process has committed meanwhile."""
        commit = Commit(
            self.ledger.version + 1,
            self._clock.now_ms(),
            tuple(ranges),
            self.ledger.changed(topics),
            staged,
        )
        if not self.files.publish(f"{_LEDGER}/{version_file(commit.version)}", commit.to_text()):
            raise AnotherArchive(
                f"Another process has written version {commit.version} of the ledger of "
                f"{self.files.root}: stop it, then start this one again"
            )
        self.ledger.take(commit)
        self._last = commit
        self._move(commit)

    def _move(self, commit: Commit) -> None:
        for name, staged in commit.staged.items():
            if self.files.exists(staged):
                self.files.move(staged, name)
            elif not self.files.exists(name):
                raise DamagedArchive(
                    f"{self.files.path(name)} is missing, which the ledger names: restore it from "
                    "a copy of the directory, or archive to a new one"
                )
