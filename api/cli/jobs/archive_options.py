"""The options of `connect-mirror-archive`, also as a command of `connect-mirror`."""

from __future__ import annotations

import argparse
from pathlib import Path

from api.cli.jobs.copy_jobs import OTHER_TOPICS, add_job_options
from api.cli.jobs.flow_program import add_topics_option
from api.cli.program import positive

__all__ = ["add_options", "check_options"]

_PARQUET, _TABLES = "parquet", ("delta", "iceberg")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run_archive` reads, besides `config` and `flow`."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--to",
        metavar="DIRECTORY",
        help="archive the source's topics into DIRECTORY, any path that Spark can write to and "
        "that all its machines share",
    )
    what.add_argument(
        "--restore",
        metavar="DIRECTORY",
        help="restore the archive in DIRECTORY into the flow's target, as the flow's copies",
    )
    what.add_argument(
        "--verify",
        metavar="DIRECTORY",
        help="check that the files or the table of the archive in DIRECTORY have the records that "
        "its ledger names",
    )
    add_topics_option(parser, OTHER_TOPICS)
    parser.add_argument(
        "--every",
        type=positive,
        metavar="SECONDS",
        help="archive what is new in rounds with this pause, until SIGTERM (default: archive to "
        "the ends of the logs, then end)",
    )
    for column in ("value", "key"):
        parser.add_argument(
            f"--{column}-schema",
            type=Path,
            metavar="FILE",
            help=f"also keep {column}s unpacked by this Avro schema (FILE.avsc) or JSON Schema, in "
            f"the column {column}_unpacked",
        )
    parser.add_argument(
        "--no-schema-ids",
        action="store_true",
        help="Avro data have no schema ID before them, as Confluent's serializers write it",
    )
    parser.add_argument(
        "--format",
        choices=(_PARQUET, *_TABLES),
        help="keep the records in parquet files in DIRECTORY, or in a delta or iceberg table, "
        "where the Spark session has that (default: as before, at first parquet)",
    )
    parser.add_argument(
        "--table",
        metavar="TABLE",
        help="with --format delta or iceberg: the table that keeps the records, as Spark SQL names "
        "it; it is created",
    )
    add_job_options(
        parser,
        ", and about that of the largest files; a restart repeats unfinished pieces (default: "
        "256MB; of a restore 64MB)",
        "at the end of each round",
    )


def check_options(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """End with the parser's usage error if options exclude each other."""
    if found.to is None and found.every is not None:
        parser.error("--every needs --to: the others end when they are done")
    if found.to is None and (found.value_schema or found.key_schema):
        parser.error("--value-schema and --key-schema need --to: a restore uses the bytes")
    if found.plan and (found.every is not None or found.verify is not None):
        other = "--every" if found.verify is None else "--verify"
        parser.error(f"--plan and {other} exclude each other: use one of them")
    if found.to is None and (found.format or found.table):
        parser.error("--format and --table need --to: the directory of an archive has them")
    if (found.format in _TABLES) != (found.table is not None):
        parser.error("--format delta or iceberg and --table TABLE need each other")
