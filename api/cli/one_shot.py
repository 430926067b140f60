"""Shared by commands that run once: usage errors, and error reporting at the top level."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from connect.errors import ConfigError, ConnectError

__all__ = [
    "EXIT_ERROR",
    "EXIT_USAGE",
    "WITHOUT_SPARK",
    "UsageParser",
    "output_file",
    "positive",
    "run_to_exit_code",
]

EXIT_USAGE = 1
EXIT_ERROR = 2
WITHOUT_SPARK = "use --engine local, which needs no Spark"
"""Advice for the user if Spark is missing and the command has a local engine."""

_INTERRUPTED = 128 + 2


class UsageParser(argparse.ArgumentParser):
    """An argument parser that ends with `EXIT_USAGE` after wrong usage; argparse's default is 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def positive(text: str) -> int:
    """Parse a whole number of at least 1, as the `type=` of an argument."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"Invalid value {text}: use a whole number of at least 1")
    return number


def output_file(text: str) -> Path:
    """Accept a file that can be written, as the `type=` of an argument, so that a wrong path fails
    before the work."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a directory: name a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"{text}: the directory {path.parent} does not exist; create it"
        )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} is not writable; grant write permission")
    return path


def run_to_exit_code(
    program: str,
    parse: Callable[[], argparse.Namespace],
    run: Callable[[argparse.Namespace], int],
) -> int:
    """Run a command and return its exit code, with one sentence on stderr if it failed."""
    try:
        arguments = parse()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_USAGE
    from api.cli.logs import configure_logging

    configure_logging(logging.WARNING)
    try:
        return run(arguments)
    except ConfigError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ConnectError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (
        Exception
    ):  # The top level of the program: any other error is a bug, so log its traceback.
        logging.getLogger(program).exception("unexpected error")
        return EXIT_ERROR
