"""Shared by all commands: usage errors, exit codes, and error reporting at the top level. Cheap to
import."""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from connect.errors import ConfigError, ConnectError

__all__ = [
    "EXIT_CONFIG",
    "EXIT_DIFFERENT",
    "EXIT_ERROR",
    "EXIT_FAILED",
    "EXIT_OK",
    "EXIT_USAGE",
    "STOP_S",
    "WITHOUT_SPARK",
    "ExitCodes",
    "KafkaParser",
    "UsageParser",
    "add_timeout_option",
    "output_file",
    "positive",
    "run_program",
    "spare_what_is_loaded",
    "tell_missing_parts",
    "tune_worker_process",
]

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_DIFFERENT = 0, 1, 2, 3
EXIT_CONFIG = 78
"""The configuration is wrong: a restart cannot help (EX_CONFIG of sysexits.h)."""
EXIT_ERROR = 2
"""Kafka's code for workers and mirrors that did not start, or did not stop in time."""

STOP_S = 25.0
"""Time limit for a clean stop of a worker; a stop usually takes much less. Service managers kill
after 30 s or more."""

WITHOUT_SPARK = "use --engine local, which needs no Spark"
"""Advice for the user if Spark is missing and the command has a local engine."""

_SWITCH_S = 0.0001
"""How long a thread of a worker may keep Python's interpreter while others wait for it. The engine
thread gives it up in each system call, so with Python's 5 ms one busy thread of REST or metrics
delays a record by tens of milliseconds. Busy threads lose less than a tenth of their speed."""

_M_ARENA_MAX = -8
_ARENAS = 2
"""A worker at full rate takes 131 MB with two, 139 MB with glibc's eight for each core."""

_COLLECT_AFTER = (1_000, 10, 1_000)
"""Thresholds of the garbage collector: how many new objects start a collection of the youngest
generation; how many of its collections start one of the middle generation; how many of those start
one of all objects. With Python's 10 as the last, a worker whose metrics are read all the time
collects everything every three seconds, and copies nothing meanwhile."""

_TIMEOUT_S = 60.0
_INTERRUPTED = 128 + 2
_NOBODY_READS = 128 + 13


class UsageParser(argparse.ArgumentParser):
    """Ends with `usage_exit` for wrong usage, with one sentence and where help is."""

    usage_exit = EXIT_USAGE

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.usage_exit, f"{self.prog}: {message}\nTry {self.prog} --help\n")


class KafkaParser(UsageParser):
    """Ends as the tools of Kafka do that scripts were written for."""

    usage_exit = 1


def tune_worker_process() -> None:
    """Let the threads of a worker process take turns often, and share their memory. Call it before
    the first thread is started."""
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_COLLECT_AFTER)
    _share_arenas()


def spare_what_is_loaded() -> None:
    """Never look for garbage among the modules and whatever else a worker process has now. Call it
    once, when the process has started its parts."""
    gc.freeze()


def _share_arenas() -> None:
    """Keep glibc from giving each of about a hundred threads a memory arena of its own, most of
    which stays unused. Does nothing if the environment decides that, or without glibc."""
    if "MALLOC_ARENA_MAX" in os.environ or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def tell_missing_parts(log: logging.Logger) -> None:
    """Log once, at the start of a worker process, that the compiled part is missing."""
    from connect.protocol.compiled import WITHOUT_NATIVE, native

    if native is None:
        log.warning("%s", WITHOUT_NATIVE)


def positive(text: str) -> int:
    """Parse a whole number of at least 1, as the `type=` of an argument."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"Invalid value {text}: use a whole number of at least 1")
    return number


def add_timeout_option(parser: argparse.ArgumentParser) -> None:
    """Add `--timeout`, which sets `timeout`."""
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT_S,
        metavar="SECONDS",
        help="timeout of the whole command",
    )


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


ExitCodes = Sequence[tuple[type[Exception], int]]
"""The exit code of a program that ended with an error; the first kind that fits counts."""

ONE_SHOT: ExitCodes = ((ConfigError, EXIT_CONFIG), (ConnectError, EXIT_FAILED))
"""The exit codes of commands that run once and end."""


def run_program(
    program: str,
    parse: Callable[[], argparse.Namespace],
    run: Callable[[argparse.Namespace], int],
    codes: ExitCodes = ONE_SHOT,
    level: Callable[[argparse.Namespace], int] = lambda _: logging.WARNING,
    unexpected: int = EXIT_FAILED,
) -> int:
    """Run a command and return its exit code, with one sentence on stderr if it failed. `level` is
    the level of its log; `unexpected` the exit code after a mistake of ours."""
    try:
        arguments = parse()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_USAGE
    from api.cli.logs import LOG_FORMAT_VARIABLE, configure_logging
    from api.cli.output.control_characters import indented
    from connect.config.secrets import without_secrets

    chosen = getattr(arguments, "log_format", None)
    try:
        configure_logging(level(arguments), chosen)
        if chosen is not None:
            # For the processes that this one starts.
            os.environ[LOG_FORMAT_VARIABLE] = chosen
        code = run(arguments)
        sys.stdout.flush()  # Here and not at Python's exit, which would end with 120.
        return code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output, such as `head`, has enough. Nothing is left to flush at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NOBODY_READS
    except Exception as error:
        for kind, code in codes:
            if isinstance(error, kind):
                print(indented(without_secrets(f"{program}: {error}")), file=sys.stderr)
                return code
        # A mistake of ours, told in full.
        logging.getLogger(program).exception(
            "ended by an unexpected error; this is a defect: report it with the trace"
        )
        return unexpected
