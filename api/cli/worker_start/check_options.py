"""The options of a worker's `--check`. The check itself is apart: a worker that runs need not load
it."""

from __future__ import annotations

import argparse

from api.cli.output.formats import add_output_option

__all__ = ["add_check_options", "check_options"]


def add_check_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--check`, with the help text `what`, and `-o` for its result."""
    parser.add_argument("--check", action="store_true", help=what)
    add_output_option(parser, "format of --check (default: table on a terminal, otherwise tsv)")


def check_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End with the parser's usage error if options do not fit each other."""
    if arguments.output is not None and not arguments.check:
        parser.error("-o needs --check: a worker that runs prints its log only")
