"""Reads the data source's tables of Kafka by the methods that Spark calls, in one process:
`python -m tests.support.spark.read_tables FILE`. Prints the errors, of reads and in rows, and ends
with 1 if a read failed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from connect.errors import ConnectError
from connectors.dataframes import KafkaMirrorDataSource

__all__ = ["TABLES"]

TABLES = ("lag", "groups", "offset_map", "offset_syncs", "checkpoints", "heartbeats", "audit")


def _errors_in_rows(table: str, file: str) -> Iterator[str]:
    """Read the table. Raises `ConnectError`."""
    source = KafkaMirrorDataSource({"path": table, "config": file})
    reader = source.reader(source.schema())
    for piece in reader.partitions():
        for batch in reader.read(piece):
            for row in batch.to_pylist():  # type: ignore[union-attr]
                if row.get("error"):
                    yield f"{table}: {row['error']}"


def main(arguments: Sequence[str]) -> int:
    (file,) = arguments
    failed = 0
    for table in TABLES:
        try:
            for error in _errors_in_rows(table, file):
                print(error)
        except ConnectError as error:
            print(f"{table}: {error}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
