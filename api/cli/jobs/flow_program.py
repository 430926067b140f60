"""Shared by the programs for one flow of an mm2.properties file: audit, backfill and archive. Cheap
to import."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from api.cli.program import UsageParser, run_program
from api.cli.version import add_version

if TYPE_CHECKING:
    from connect.config.java_regex import JavaRegex

__all__ = ["add_engine_option", "add_topics_option", "chosen_topics", "run_flow_program"]


def run_flow_program(
    program: str,
    argv: Sequence[str] | None,
    run: Callable[[argparse.Namespace], int],
    add_options: Callable[[argparse.ArgumentParser], None],
    check_options: Callable[[argparse.ArgumentParser, argparse.Namespace], None],
    *,
    description: str,
    epilog: str,
    flow_help: str,
) -> int:
    """Parse the arguments, run the program and return its exit code."""

    def parse() -> argparse.Namespace:
        parser = UsageParser(prog=program, description=description, epilog=epilog)
        add_version(parser)
        parser.add_argument("config", type=Path, metavar="mm2.properties")
        parser.add_argument("--flow", metavar="A->B", help=flow_help)
        add_options(parser)
        arguments = parser.parse_args(argv)
        check_options(parser, arguments)
        return arguments

    return run_program(program, parse, run)


def add_topics_option(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add `--topics`, which sets `topics`. `more`: the end of its help."""
    parser.add_argument(
        "--topics",
        metavar="REGEX",
        help="only source topics whose whole name matches REGEX, a Java regular expression" + more,
    )


def chosen_topics(arguments: argparse.Namespace) -> JavaRegex | None:
    """Return the pattern of `--topics`; None: it is not given. Raises `ConfigError`."""
    from connectors.mirror.inspect.source_topics import topic_pattern

    return None if arguments.topics is None else topic_pattern(arguments.topics)


def add_engine_option(parser: argparse.ArgumentParser, local: str) -> None:
    """Add `--engine`, which sets `engine`. `local`: where the local engine runs."""
    parser.add_argument(
        "--engine",
        choices=("spark", "local"),
        default="spark",
        help="spark: run on the Spark master in the properties (default local[*]); "
        f"local: run in {local}, without a JVM (default: spark)",
    )
