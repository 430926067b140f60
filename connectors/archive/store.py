"""The directory of an archive: its ledger, and the files that the ledger names.

    archive.json           the cluster whose records it has, and their table, if they are in one
    ledger/<version>.json  the commits (`ledger.py`)
    data/topic=.../partition=.../<first>-<end>.parquet
    _staging/              files that are not committed yet

A commit's files are first written to the staging folder, then the commit is published, then they
are moved into `data`, or put into the table. So neither ever has a record that the ledger does not
have, wherever a crash stops it; opening the directory completes the last commit, and deletes the
rest.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from connect.clock import SYSTEM_CLOCK, Clock
from connectors.archive.errors import (
    AnotherArchive,
    ArchiveRefused,
    DamagedArchive,
    NotThisCluster,
)
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
from connectors.archive.place import DataFolder, RecordPlace, WantedPlace
from connectors.archive.table import ArchiveTable, TableFormat, TableId

__all__ = ["STAGING", "ArchiveStore"]

STAGING = "_staging"
_ABOUT = "archive.json"
_LEDGER = "ledger"


class ArchiveStore:
    """An opened archive. For one thread."""

    def __init__(
        self, files: ArchiveFiles, about: Mapping[str, Any], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.files = files
        self.about = about
        table = about.get("table")
        self.place: RecordPlace = (
            DataFolder(files) if table is None else ArchiveTable(files, TableId(**table))
        )
        self._clock = clock
        self._last: Commit | None = None
        self.ledger = Ledger()
        for name in files.names(_LEDGER):
            if version_of(name) is not None:
                self._last = Commit.of_text(files.read(f"{_LEDGER}/{name}"), name)
                self.ledger.take(self._last)

    @classmethod
    def open(
        cls, files: ArchiveFiles, cluster: str, alias: str, wanted: WantedPlace | None = None
    ) -> ArchiveStore:
        """Open an archive to add to it; create it if the directory is empty. Call it under the lock
        of the flow's archive. `cluster`: the ID of the source cluster; `alias`: its name, for
        people. `wanted`: where its records are to be; None: where they are, or in Parquet files.
        Raises `ArchiveRefused`, and `ConfigError` if the session lacks the table's format."""
        if not files.exists(_ABOUT):
            _begin(files, cluster, alias, wanted or WantedPlace())
        store = cls.read(files)
        store._check_cluster(cluster, alias)
        store._check_place(wanted)
        store.recover()
        return store

    @classmethod
    def look(
        cls, files: ArchiveFiles, cluster: str, alias: str, wanted: WantedPlace | None = None
    ) -> Ledger:
        """Return the ledger to which `open` would add, and change nothing. Raises as `open`."""
        if not files.exists(_ABOUT):
            return Ledger()
        store = cls.read(files)
        store._check_cluster(cluster, alias)
        store._check_place(wanted)
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
            if "table" in about:
                TableFormat(TableId(**about["table"]).format)
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

    def _check_place(self, wanted: WantedPlace | None) -> None:
        table = self.about.get("table")
        there = WantedPlace() if table is None else WantedPlace(table["format"], table["name"])
        if wanted not in (None, there):
            has = "files" if there.table is None else f"table {there.table}"
            raise ArchiveRefused(
                f"The records of the archive in {self.files.root} are in {there.format} {has}: "
                "archive to another directory, or leave out --format and --table"
            )

    def recover(self) -> None:
        """Complete the last commit, and delete files that were never committed."""
        if self._last is not None:
            self.place.put(self._last, again=True)
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
            tuple(map(self.place.placed, ranges)),
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
        self.place.put(commit, again=False)


def _begin(files: ArchiveFiles, cluster: str, alias: str, wanted: WantedPlace) -> None:
    """Make an empty directory an archive. Raises `ArchiveRefused`, `ConfigError`."""
    if files.names("data") or files.names(_LEDGER):
        raise DamagedArchive(
            f"{files.root} has data but no {_ABOUT}: restore it from a copy of the directory, or "
            "archive to an empty one"
        )
    about: dict[str, Any] = {"format": FORMAT_VERSION, "cluster_id": cluster, "alias": alias}
    if wanted.table is not None:
        table = TableId(wanted.format, wanted.table, uuid.uuid4().hex)
        ArchiveTable(files, table).refuse_existing()
        about["table"] = table._asdict()
    files.publish(_ABOUT, json.dumps(about) + "\n")
