"""`connect-mirror check`: a plan of what `connect-mirror run` would do, for people and pipelines.

Exit codes: 0 no error was found, 1 something would keep a flow from working, 3 with --exit-code: no
error was found, and topics would be created or changed.
"""

from __future__ import annotations

import argparse

from api.cli.output.formats import print_result
from api.cli.program import EXIT_DIFFERENT, EXIT_FAILED, EXIT_OK

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--clusters",
        nargs="+",
        metavar="ALIAS",
        help="check only flows into these target clusters (default: all)",
    )
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="end with 3 if topics would be created or changed",
    )
    parser.add_argument(
        "--rate",
        type=float,
        metavar="RECORDS/s",
        help="rate for the time that the backlog takes (default: that of the running mirror)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the plan. Returns the exit code."""
    from api.cli.connect_mirror.running import measured_rates
    from api.cli.output.check import check_document, print_report
    from api.cli.output.read_progress import ASKING, gathering
    from connectors.mirrormaker.check.check import check
    from connectors.mirrormaker.flow_lookup import load_file

    config = load_file(arguments.config)
    flows = [str(flow) for flow in config.flows(arguments.clusters)]
    rates = (
        measured_rates(config) if arguments.rate is None else dict.fromkeys(flows, arguments.rate)
    )
    with gathering(ASKING):
        report = check(config, arguments.clusters, rates)
    print_result(
        arguments,
        lambda: check_document(report),
        lambda output: print_report(report, output=output),
    )
    if not report.can_run:
        return EXIT_FAILED
    return EXIT_DIFFERENT if arguments.exit_code and report.differs else EXIT_OK
