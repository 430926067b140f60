"""What commands that run once and end have in common: usage errors, and what reaches the top."""

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
"""What a command that has both engines says where Spark is not there."""

_INTERRUPTED = 128 + 2


class UsageParser(argparse.ArgumentParser):
    """Ends with `EXIT_USAGE` where argparse would with 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def positive(text: str) -> int:
    """A whole number of at least 1, for `type=` of an argument."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1")
    return number


def output_file(text: str) -> Path:
    """A file that can be written, for `type=` of an argument: known before the work, not after."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: a directory; name a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no directory {path.parent}; make it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text}: no permission to write it")
    return path


def run_to_exit_code(
    program: str,
    parse: Callable[[], argparse.Namespace],
    run: Callable[[argparse.Namespace], int],
) -> int:
    """The whole of a command: its exit code, after one sentence on stderr where it failed."""
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
    except Exception:  # the top of the program: a mistake of ours, told in full
        logging.getLogger(program).exception("ended by an unexpected error")
        return EXIT_ERROR
