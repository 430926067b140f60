"""`connect-mirror`: everything about a mirror of an mm2.properties file, one subcommand each.

The subcommands share their work with the commands `connect-mirror-maker`, `-client`, `-audit`,
`-backfill` and `-archive`, whose names and options stay as they are. Here they have
the same options for the file, the flow and the format. Exit codes:
    0    done
    1    failed: a cluster did not answer, or something ended in an error
    2    the command line is wrong
    3    the answer is no: something differs, is not healthy, was refused or is incomplete
    4    backfill, archive: stopped before it was done; audit --mode ledger: offsets are not
         accounted for
    78   the configuration is wrong
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from api.cli import (
    acls,
    mirror_archive,
    mirror_audit,
    mirror_backfill,
    mirror_client,
    mirror_maker,
)
from api.cli.connect_mirror import check, history, importing, lag, pages, pause, status, why
from api.cli.connect_mirror.options import (
    add_config_option,
    add_flow_option,
)
from api.cli.jobs import archive_options
from api.cli.jobs.flow_program import add_topics_option
from api.cli.output.formats import add_output_option
from api.cli.output.mirror_client import Output
from api.cli.processes.exit_process import leave
from api.cli.program import (
    EXIT_CONFIG,
    EXIT_FAILED,
    UsageParser,
    add_timeout_option,
    run_program,
)
from api.cli.version import add_version
from connect.errors import ConfigError, ConnectError

__all__ = ["command", "main", "parser"]

PROGRAM = "connect-mirror"

Run = Callable[[argparse.Namespace], int]
Add = Callable[[argparse.ArgumentParser], None]

_EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 something differs, is not healthy, was "
    "refused or is incomplete, 4 stopped before the end, 78 wrong configuration."
)


@dataclass(frozen=True, slots=True)
class _Command:
    """A subcommand. `adds`: the functions that add its options, in the order of --help. `codes`:
    its own exit codes, where an older command uses others. `level`: its log level."""

    name: str
    help: str
    run: Run
    adds: Sequence[Add] = ()
    check: Callable[[argparse.ArgumentParser, argparse.Namespace], None] = lambda *_: None
    codes: Sequence[tuple[int, int]] = ()
    level: int = logging.ERROR


def _add_target_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--to", required=True, metavar="ALIAS", help="alias of the target cluster")
    add_timeout_option(command)
    # For the cluster that older commands may name without a file.
    command.set_defaults(bootstrap=None, command_config=None, from_bootstrap=None)


def _with_output(run: Callable[[argparse.Namespace, Output], int]) -> Run:
    def print_with(arguments: argparse.Namespace) -> int:
        return run(arguments, Output(sys.stdout, output=arguments.output))

    return print_with


_FILE = (add_config_option,)
_FLOW = (add_config_option, add_flow_option, add_output_option)
_TARGET = (add_config_option, _add_target_option, add_output_option)
# Of the command that ends with Kafka's codes under its own name.
_FAILED = ((2, EXIT_FAILED), (3, EXIT_FAILED))

COMMANDS = (
    _Command(
        "run",
        "run the flows of the file",
        mirror_maker.run_flows,
        (*_FILE, mirror_maker.add_run_options),
        codes=_FAILED,
        level=logging.INFO,
    ),
    _Command(
        "check",
        "show what would be mirrored, created, changed and skipped, and change nothing",
        check.run,
        (*_FILE, check.add_options, add_output_option),
        level=logging.WARNING,
    ),
    _Command(
        "status",
        "show the state of a running mirror, once or live",
        status.run,
        (*_FLOW, status.add_options),
    ),
    _Command(
        "lag",
        "show how far each partition is behind, from what Kafka stores",
        lag.run,
        (*_FLOW, add_topics_option),
    ),
    _Command(
        "why",
        "explain why a topic is not mirrored or lags, or a group is not ready to move",
        why.run,
        (*_FLOW, why.add_options),
    ),
    _Command("pause", "pause a flow: its tasks stop copying", pause.pause, _FLOW),
    _Command("resume", "resume a paused flow", pause.resume, _FLOW),
    _Command(
        "translate",
        "translate the offsets of consumer groups to the target",
        _with_output(mirror_client.run_translate),
        (*_TARGET, mirror_client.add_translate_options),
    ),
    _Command(
        "audit",
        "compare copies with their sources",
        mirror_audit.run_audit,
        (*_FLOW, mirror_audit.add_options),
        mirror_audit.check_options,
        level=logging.WARNING,
    ),
    _Command(
        "backfill",
        "copy a flow's history as one job",
        mirror_backfill.run_backfill,
        (*_FLOW, mirror_backfill.add_options),
        mirror_backfill.check_options,
        level=logging.WARNING,
    ),
    _Command(
        "archive",
        "keep a flow's topics as Parquet files, or restore them",
        mirror_archive.run_archive,
        (*_FLOW, archive_options.add_options),
        archive_options.check_options,
        level=logging.WARNING,
    ),
    _Command(
        "history",
        "show lost records, quarantined records and stalls",
        _with_output(history.run),
        (history.add_options, add_output_option),
    ),
    _Command(
        "acls",
        "print kafka-acls.sh commands that grant what flows need",
        acls.run,
        (*_FILE, acls.add_options, acls.add_output_option),
    ),
    _Command(
        "clusters",
        "list upstream clusters of a target and their distance in hops",
        _with_output(mirror_client.run_clusters),
        _TARGET,
    ),
    _Command(
        "topics",
        "list heartbeats, checkpoints and copied topics of a target",
        _with_output(mirror_client.run_topics),
        (*_TARGET, mirror_client.add_topics_options),
    ),
    _Command(
        "import",
        "print the mm2.properties of another tool's file",
        importing.run,
        (importing.add_options,),
    ),
    _Command(
        "completion",
        "print a script that completes this command in a shell",
        lambda arguments: pages.print_completion(parser(), arguments),
        (pages.add_completion_options,),
    ),
    _Command(
        "man",
        "print the manual page of this command, or of a subcommand",
        lambda arguments: pages.print_manual(parser(), arguments),
        (pages.add_manual_options,),
    ),
)


def parser() -> UsageParser:
    """Return the parser of all subcommands."""
    top = UsageParser(
        prog=PROGRAM,
        description="Mirror topics between Kafka clusters, and look after the mirror.",
        epilog=_EXIT_CODES,
    )
    add_version(top)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for each in COMMANDS:
        command = commands.add_parser(
            each.name,
            help=each.help,
            description=f"{each.help[0].upper()}{each.help[1:]}.",
            epilog=_EXIT_CODES,
        )
        add_version(command)
        for add in each.adds:
            add(command)
        command.set_defaults(subcommand=each, subparser=command)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_program(
        PROGRAM,
        lambda: _arguments(argv),
        _run,
        ((ConfigError, EXIT_CONFIG), (OSError, EXIT_FAILED), (ConnectError, EXIT_FAILED)),
        lambda arguments: arguments.subcommand.level,
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    arguments, unknown = parser().parse_known_args(argv)
    if unknown:
        # The subcommand's usage helps more than that of the whole command.
        arguments.subparser.error(f"unrecognized arguments: {' '.join(unknown)}")
    arguments.subcommand.check(arguments.subparser, arguments)
    return arguments


def _run(arguments: argparse.Namespace) -> int:
    chosen: _Command = arguments.subcommand
    code = chosen.run(arguments)
    return dict(chosen.codes).get(code, code)


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
