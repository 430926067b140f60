"""Where an archive's records are: in files that the ledger names, or in a table of another format.

A commit is published in the ledger first, then put into its place. Only the last commit of the
ledger may lack there, after a crash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from connect.protocol.messages import TopicPartition
from connectors.archive.errors import DamagedArchive
from connectors.archive.files import ArchiveFiles
from connectors.archive.ledger import ArchivedRange, Commit, Ledger
from connectors.archive.rows import READ_SCHEMA

__all__ = ["PARQUET", "DataFolder", "OffsetRange", "RecordPlace", "WantedPlace", "within"]

PARQUET = "parquet"

OffsetRange = tuple[TopicPartition, int, int]
"""A partition, its first offset and its end offset (exclusive)."""


class WantedPlace(NamedTuple):
    """Where the user wants the records. `table`: its name, as Spark SQL reads it; None for files of
    the format `PARQUET`."""

    format: str = PARQUET
    table: str | None = None


class RecordPlace(Protocol):
    """The place of an archive's records. For one thread, except `rows`."""

    def prepare(self, columns: StructType, *, begun: bool) -> None:
        """Make the place ready for rows with these columns, besides topic and partition. `begun`:
        whether the ledger has a commit. Raises `ConfigError`, `ArchiveRefused`."""

    def placed(self, found: ArchivedRange) -> ArchivedRange:
        """Return the range as the ledger is to name it. `found`: with the name of its file."""

    def put(self, commit: Commit, *, again: bool) -> None:
        """Put the staged records of a commit here. `again`: they may be here already, all of them.
        Raises `DamagedArchive`, and `RetriableError` if it may be repeated with `again`."""

    def check(self, ledger: Ledger, topics: Collection[str]) -> None:
        """Raise `DamagedArchive` if records of these topics are not here that the ledger has."""

    def rows(self, ledger: Ledger, ranges: Iterable[OffsetRange]) -> DataFrame:
        """Return the rows of these ranges, with the columns of READ_SCHEMA among others, in any
        order. The ledger has records of them."""

    def scans(self, ranges: Sequence[ArchivedRange]) -> Iterable[Sequence[ArchivedRange]]:
        """Split ranges into those that are best read together, each of one partition."""

    def told(self, found: ArchivedRange) -> str:
        """Return where the records of a range are, for people."""


class DataFolder:
    """Parquet files in the folder `data` of the archive's directory."""

    def __init__(self, files: ArchiveFiles) -> None:
        self._files = files

    def prepare(self, columns: StructType, *, begun: bool) -> None:
        """Do nothing: each file has its own columns."""

    def placed(self, found: ArchivedRange) -> ArchivedRange:
        return found

    def put(self, commit: Commit, *, again: bool) -> None:
        for name, staged in commit.staged.items():
            if self._files.exists(staged):
                self._files.move(staged, name)
            elif not self._files.exists(name):
                raise DamagedArchive(
                    f"{self._files.path(name)} is missing, which the ledger names: restore it from "
                    "a copy of the directory, or archive to a new one"
                )

    def check(self, ledger: Ledger, topics: Collection[str]) -> None:
        for key, ranges in ledger.ranges.items():
            if key[0] not in topics:
                continue
            named = [each.file for each in ranges if each.file is not None]
            folder = f"data/topic={key[0]}/partition={key[1]}"
            there = set(self._files.names(folder)) if named else set()
            for name in named:
                if name.rpartition("/")[2] not in there:
                    raise DamagedArchive(
                        f"{self._files.path(name)} is missing, which the ledger names: restore it "
                        f"from a copy of the directory, or leave {key[0]} out with --topics"
                    )

    def rows(self, ledger: Ledger, ranges: Iterable[OffsetRange]) -> DataFrame:
        wanted = list(ranges)
        names = [name for each in wanted for name in ledger.files(*each)]
        read = self._files.session.read.schema(READ_SCHEMA)
        read = read.option("basePath", self._files.path("data"))
        return read.parquet(*map(self._files.path, names)).where(within(wanted))

    def scans(self, ranges: Sequence[ArchivedRange]) -> Iterable[Sequence[ArchivedRange]]:
        return ([each] for each in ranges)

    def told(self, found: ArchivedRange) -> str:
        return self._files.path(found.file or "")


def within(ranges: Iterable[OffsetRange]) -> Column:
    """Return the condition of rows whose offsets are in one of these ranges, of which there is at
    least one."""
    found = [
        (F.col("topic") == topic)
        & (F.col("partition") == partition)
        & (F.col("offset") >= start)
        & (F.col("offset") < end)
        for (topic, partition), start, end in ranges
    ]
    # As a tree without depth: Spark walks it by recursion.
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        found = [*(one | other for one, other in pairs), *found[len(found) // 2 * 2 :]]
    return found[0]
