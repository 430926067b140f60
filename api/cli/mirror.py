"""`connect-mirror-maker`: mirror Kafka clusters as an mm2.properties says.

    connect-mirror-maker [--clusters ALIAS ...] [--check] mm2.properties

Exit codes:
    0    stopped by SIGTERM or SIGINT, with the final offsets stored; --check: nothing in the way
    1    --check: something would keep a flow from working, as the report says
    2    the properties are wrong, or the mirrors failed while running
    3    the mirrors could not be started
    255  the command line is wrong
A second SIGTERM or SIGINT ends the program at once, with 128 and the signal's number.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from api.cli.stopping import StopSignal
from connect.errors import ConfigError, ConnectError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from connectors.maker.config import MirrorMakerConfig
    from connectors.maker.maker import MirrorMaker

__all__ = ["main"]

EXIT_OK = 0
EXIT_IN_THE_WAY = 1
EXIT_ERROR = 2
EXIT_START = 3
EXIT_USAGE = 255

STOP_S = 20.0
"""Budget of a clean stop; little of it is used. Service managers kill after 30 s or more."""

WATCH_S = 1.0
"""How often it is looked whether any flow is left."""

log = logging.getLogger("connect-mirror-maker")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="connect-mirror-maker",
        description="Mirror topics between Kafka clusters.",
        epilog="Exit codes: 0 stopped cleanly, 1 --check found something in the way, "
        "2 error, 3 start failed, 255 wrong command line.",
    )
    parser.add_argument(
        "config", type=Path, metavar="mm2.properties", help="MirrorMaker 2 configuration file"
    )
    parser.add_argument(
        "--clusters",
        nargs="+",
        metavar="ALIAS",
        help="target clusters to serve: only flows into these are run (default: all)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="connect, print what would be mirrored, created and skipped, and why; change nothing",
    )
    # Both "--clusters a b file" and "file --clusters a b" are written, and Java takes both.
    return parser.parse_args(_file_first(list(sys.argv[1:] if argv is None else argv)))


def _file_first(argv: list[str]) -> list[str]:
    """Close the list of `--clusters` before a properties file that ends the line."""
    if "--clusters" in argv and len(argv) > 2 and not argv[-1].startswith("-"):
        listed = argv[argv.index("--clusters") + 1 :]
        if listed and Path(listed[-1]).suffix == ".properties":
            return [listed[-1], *argv[:-1]]
    return argv


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit code."""
    try:
        arguments = _arguments(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_USAGE
    from api.cli.logs import configure_logging

    configure_logging(logging.WARNING if arguments.check else logging.INFO)
    try:
        config = _load(arguments.config)
        if arguments.check:
            return _check(config, arguments.clusters)
        return _run(config, arguments.clusters)
    except ConfigError as error:
        print(f"connect-mirror-maker: {error}", file=sys.stderr)
        return EXIT_ERROR
    except ConnectError as error:
        print(f"connect-mirror-maker: {error}", file=sys.stderr)
        return EXIT_START
    except Exception:  # the top of the program: a mistake of ours, told in full
        log.exception("ended by an unexpected error")
        return EXIT_ERROR


def _load(path: Path) -> MirrorMakerConfig:
    from connectors.maker.config import MirrorMakerConfig

    try:
        return MirrorMakerConfig.from_file(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot read the configuration file {path}: {reason}") from error


def _run(config: MirrorMakerConfig, clusters: Sequence[str] | None) -> int:
    from connect.clock import Deadline
    from connectors.maker.maker import MirrorMaker

    for warning in config.warnings:
        log.warning("%s", warning)
    stop = StopSignal()
    maker = MirrorMaker(config, clusters)
    with _metrics_page(config, maker):
        maker.start()
        try:
            while not stop.wait(WATCH_S):
                if maker.all_failed():
                    log.error("no flow is left to run")
                    return EXIT_START
        finally:
            log.info("stopping")
            ended = maker.stop(Deadline(STOP_S))
    log.info("stopped")
    return EXIT_OK if ended else EXIT_ERROR


@contextmanager
def _metrics_page(config: MirrorMakerConfig, maker: MirrorMaker) -> Iterator[None]:
    """The server of `metrics.listener`, for as long as the block runs; none where that is empty."""
    if not config.metrics_listener:
        yield
        return
    from api.server import ApiServer

    def make_app() -> FastAPI:
        from api.app import create_app

        return create_app(maker.metrics, maker.statuses)

    server = ApiServer(make_app, config.metrics_listener, "metrics.listener")
    try:
        server.start()
        yield
    finally:
        server.stop()


def _check(config: MirrorMakerConfig, clusters: Sequence[str] | None) -> int:
    from api.cli.check_output import print_report
    from connectors.maker.check import check

    report = check(config, clusters)
    print_report(report)
    return EXIT_OK if report.can_run else EXIT_IN_THE_WAY


if __name__ == "__main__":
    sys.exit(main())
