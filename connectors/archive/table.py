"""The records of an archive in a Delta or Iceberg table, which chooses its own files.

A commit of the ledger is one commit of the table, so the table has all of its records or none. That
it has them is known from the table: after a crash by its records, and while it is written by the
table's own rule against writing twice, in case a process that seemed dead goes on. Delta ignores a
version of an application that it has (`txnAppId`, `txnVersion`); Iceberg publishes the snapshot of
a WAP ID once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple, cast

import pyspark  # noqa: F401 - before its parts
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from connect.errors import ConfigError
from connectors.archive.errors import ArchiveRefused, DamagedArchive
from connectors.archive.files import ArchiveFiles
from connectors.archive.ledger import ArchivedRange, Commit, Ledger
from connectors.archive.place import OffsetRange, within
from connectors.mirror.spark.tables import arrow_table
from connectors.spark.arrow import collect
from connectors.spark.errors import first_line, job_errors
from connectors.spark.versions import table_package

__all__ = ["ArchiveTable", "TableFormat", "TableId"]


class TableFormat(StrEnum):
    """Formats of tables. Values: as Spark and `--format` know them."""

    DELTA = "delta"
    ICEBERG = "iceberg"


_CLASSES = {
    TableFormat.DELTA: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    TableFormat.ICEBERG: "org.apache.iceberg.spark.SparkCatalog",
}
_OWNER = "kafka-connect-mirror.archive"
"""The table's property with the ID of its archive."""

_WAP_ID = "spark.wap.id"
_WAP_PUBLISHED = "org.apache.iceberg.exceptions.DuplicateWAPCommitException"
_NO_TABLE = ("DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST")
"""Delta's errors for a path without a table."""

_NULLS = ("nullable", "containsNull", "valueContainsNull")
_SCAN_BYTES = 256 * 1000 * 1000

_FILE = "_staged_file"
_PLACES = StructType(
    [
        StructField(_FILE, StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
    ]
)


class TableId(NamedTuple):
    """A table of an archive. `format`: of `TableFormat`; `name`: as Spark SQL reads it; `id`: of
    the archive, by which the table is known to be its own."""

    format: str
    name: str
    id: str


class ArchiveTable:
    """A `RecordPlace` for one archive alone, which creates it."""

    def __init__(self, files: ArchiveFiles, table: TableId) -> None:
        """Raises `ConfigError` if the session lacks what the table's format needs."""
        self._files = files
        self._session = files.session
        self._table = table
        self._format = TableFormat(table.format)
        jvm = cast(Any, self._session._jvm)
        if not jvm.org.apache.spark.util.Utils.classIsLoadable(_CLASSES[self._format]):
            raise ConfigError(
                f"The Spark session has no {self._format.name.title()}: set spark.jars.packages to "
                f"{table_package(self._format)} in the properties, and the catalog of the table",
                key="--format",
            )

    def refuse_existing(self) -> None:
        """Raise `ArchiveRefused` if there is such a table, before an archive claims it."""
        with self._refusals():
            if self._exists():
                raise ArchiveRefused(
                    f"Table {self._table.name} exists already, and is not of this archive: name "
                    "another one with --table"
                )

    def prepare(self, columns: StructType, *, begun: bool) -> None:
        empty = self._session.createDataFrame([], _full(columns))
        with self._refusals():
            if not self._exists():
                if begun:
                    raise DamagedArchive(
                        f"Table {self._table.name} is missing, which has the records of the "
                        f"archive in {self._files.root}: restore it from a copy, or archive to a "
                        "new directory and table"
                    )
                self._create(empty)
            self._check_owner()
            self._add_columns(empty)

    def _exists(self) -> bool:
        try:
            return self._session.catalog.tableExists(self._table.name)
        except AnalysisException as error:
            if error.getCondition() in _NO_TABLE:
                return False
            raise

    def _create(self, empty: DataFrame) -> None:
        writer = empty.writeTo(self._table.name).using(self._format)
        writer = writer.partitionedBy(F.col("topic"), F.col("partition"))
        writer = writer.tableProperty(_OWNER, self._table.id)
        if self._format is TableFormat.ICEBERG:
            writer = writer.tableProperty("write.wap.enabled", "true")
        writer.create()

    def _check_owner(self) -> None:
        found = collect(self._session.sql(f"SHOW TBLPROPERTIES {self._table.name}"))
        owner = next((row["value"] for row in found.to_pylist() if row["key"] == _OWNER), None)
        if owner != self._table.id:
            raise ArchiveRefused(
                f"Table {self._table.name} is not the one of the archive in {self._files.root}: "
                "archive to a new directory and table"
            )

    def _add_columns(self, empty: DataFrame) -> None:
        """Add the columns that an earlier schema did not have."""
        there = {each.name: each.dataType for each in self._session.table(self._table.name).schema}
        for each in empty.schema:
            kind = there.get(each.name)
            if kind is not None and kind.simpleString() != each.dataType.simpleString():
                raise ArchiveRefused(
                    f"Column {each.name} of table {self._table.name} is "
                    f"{kind.simpleString()}, and this schema makes it "
                    f"{each.dataType.simpleString()}: archive to another directory and table"
                )
        missing = [each.name for each in empty.schema if each.name not in there]
        if missing:
            java: Any = empty.select(*missing)._jdf
            self._session.sql(
                f"ALTER TABLE {self._table.name} ADD COLUMNS ({java.schema().toDDL()})"
            )

    def placed(self, found: ArchivedRange) -> ArchivedRange:
        return replace(found, file=None)

    def put(self, commit: Commit, *, again: bool) -> None:
        if not commit.staged:
            return
        if again and not self._lacks(commit):
            return
        with job_errors(f"Appending to {self._table.name}"):
            self._append(self._staged(commit), commit.version)

    def _lacks(self, commit: Commit) -> bool:
        """Whether none of the commit's records is here."""
        folder = _staging_folder(commit)
        there = set(self._files.names(folder))
        if not all(each.rpartition("/")[2] in there for each in commit.staged.values()):
            return False  # They are deleted only once they are here.
        wanted = [(each.key, each.start, each.end) for each in commit.ranges if each.records]
        with job_errors(f"Reading {self._table.name}"):
            return self._rows(wanted).isEmpty()

    def _staged(self, commit: Commit) -> DataFrame:
        """Return the rows of the commit's files, with the columns of the table."""
        files = {each.rpartition("/")[2]: name for name, each in commit.staged.items()}
        folder = _staging_folder(commit)
        places = []
        for file, name in files.items():
            _, topic, partition, _ = name.rsplit("/", 3)
            places.append(
                (file, topic.removeprefix("topic="), int(partition.removeprefix("partition=")))
            )
        located = self._session.createDataFrame(arrow_table(_PLACES, places))
        read = self._session.read.parquet(self._files.path(folder))
        rows = read.withColumn(_FILE, F.col("_metadata.file_name")).join(
            F.broadcast(located), _FILE
        )
        return rows.select(
            *(
                F.col(each.name)
                if each.name in rows.columns
                else F.lit(None).cast(each.dataType).alias(each.name)
                for each in self._session.table(self._table.name).schema
            )
        ).sortWithinPartitions("topic", "partition", "offset")

    def _append(self, rows: DataFrame, version: int) -> None:
        writer = rows.writeTo(self._table.name)
        if self._format is TableFormat.DELTA:
            writer.option("txnAppId", self._table.id).option("txnVersion", str(version)).append()
            return
        wap_id = f"{self._table.id}-{version}"
        self._session.conf.set(_WAP_ID, wap_id)
        try:
            writer.append()
        finally:
            self._session.conf.unset(_WAP_ID)
        self._publish(wap_id)

    def _publish(self, wap_id: str) -> None:
        """Make the snapshot of an append the table's, unless one with this WAP ID was."""
        name = self._table.name
        catalog = name.partition(".")[0]
        if self._session.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            catalog = self._session.catalog.currentCatalog()
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        try:
            self._session.sql(
                f"CALL {catalog}.system.publish_changes(table => '{quoted}', wap_id => '{wap_id}')"
            )
        except Py4JJavaError as error:
            if cast(Any, error.java_exception).getClass().getName() != _WAP_PUBLISHED:
                raise

    def check(self, ledger: Ledger, topics: Collection[str]) -> None:
        with job_errors(f"Counting the records of {self._table.name}"):
            counted = self._session.table(self._table.name).groupBy("topic", "partition").count()
            found = {
                (row["topic"], row["partition"]): row["count"]
                for row in collect(counted).to_pylist()
            }
        for key, ranges in ledger.ranges.items():
            known = sum(each.records for each in ranges)
            if key[0] in topics and found.get(key, 0) != known:
                raise DamagedArchive(
                    f"Table {self._table.name} has {found.get(key, 0)} records of "
                    f"{key[0]}-{key[1]}, and the ledger says {known}: if an archive was killed, "
                    f"run it again; else restore the table, or leave {key[0]} out with --topics"
                )

    def rows(self, ledger: Ledger, ranges: Iterable[OffsetRange]) -> DataFrame:
        return self._rows(ranges)

    def _rows(self, ranges: Iterable[OffsetRange]) -> DataFrame:
        return self._session.table(self._table.name).where(within(ranges))

    def scans(self, ranges: Sequence[ArchivedRange]) -> Iterable[Sequence[ArchivedRange]]:
        # Each scan plans from the table's whole metadata, and may open files of many ranges.
        scan: list[ArchivedRange] = []
        size = 0
        for each in ranges:
            if scan and (each.key != scan[-1].key or size + each.bytes > _SCAN_BYTES):
                yield scan
                scan, size = [], 0
            scan.append(each)
            size += each.bytes
        if scan:
            yield scan

    def told(self, found: ArchivedRange) -> str:
        offsets = f"offsets {found.start} to {found.end - 1} of {found.topic}-{found.partition}"
        return f"{self._table.name}, {offsets}"

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Turn what Spark says against a table into `ConfigError`."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            raise ConfigError(
                f"Table {self._table.name}: {first_line(error)}", key="--table"
            ) from error


def _staging_folder(commit: Commit) -> str:
    """Return the folder in which the files of a commit with records were written."""
    return next(iter(commit.staged.values())).rpartition("/")[0]


def _full(columns: StructType) -> StructType:
    """Return these columns, and those that Parquet files have in the names of their folders. All
    may be null, as columns that are added to a table must be."""
    whole = StructType([*columns.fields, *_PLACES.fields[1:]])
    return StructType.fromJson(json.loads(whole.json(), object_hook=_nullable))


def _nullable(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name not in _NULLS else True for name, value in plain.items()}
