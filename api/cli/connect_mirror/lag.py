"""`connect-mirror lag`: how far each partition is behind, from what Kafka stores. It needs no
running mirror, and works for a flow that Java copies, too."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from api.cli.jobs.flow_program import chosen_topics
from api.cli.output.formats import print_result
from api.cli.output.tables import table_printer
from api.cli.program import EXIT_OK
from connectors.mirrormaker1.offset_checker import PartitionRow, flow_rows

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Print the lag of a flow. Returns the exit code."""
    from api.cli.output.read_progress import ASKING, gathering
    from connectors.mirrormaker.flow_lookup import named_flow

    flow = named_flow(arguments.config, arguments.flow)
    topics = chosen_topics(arguments)
    with gathering(ASKING):
        found = flow_rows(flow, None)
    rows = [row for row in found if topics is None or topics.fullmatch(row.topic)]
    print_result(
        arguments,
        lambda: [{**asdict(row), "lag": row.lag} for row in rows],
        lambda output: _print(rows, output),
    )
    return EXIT_OK


def _print(rows: Sequence[PartitionRow], output: str | None) -> None:
    printer = table_printer(output=output)
    printer.table(
        "Lag",
        ("flow", "topic", "partition", "next offset", "source end", "lag", "copied by"),
        [
            (
                row.group,
                row.topic,
                str(row.partition),
                "none stored" if row.offset is None else str(row.offset),
                str(row.log_size),
                "unknown" if row.lag is None else str(row.lag),
                row.owner or "nobody",
            )
            for row in rows
        ],
    )
