"""`connect-mirror-maker`: run the flows of an mm2.properties.

    connect-mirror-maker [--clusters ALIAS ...] [--workers N] [--check] mm2.properties

Processes with the same properties, on any hosts, share the work of each flow. `--workers N` runs N
of them on this host. The first uses `metrics.listener` and `listeners` from the properties; the
others listen on the same hosts and free ports, and log their ports.

A change of the file is applied within seconds, and at SIGHUP at once: flows are added, removed and
changed while the others go on.

Exit codes:
    0    stopped by SIGTERM or SIGINT, with the final offsets stored; --check: no error found
    1    --check: an error would prevent a flow from working, as the report says
    2    the command line is wrong, or the mirrors failed while running
    3    the mirrors could not be started
    78   the properties are wrong
A second SIGTERM or SIGINT ends the program at once, with 128 and the signal's number.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from api.cli.file_watch import FileWatch
from api.cli.logs import add_log_option
from api.cli.processes.exit_process import leave
from api.cli.processes.stop_signals import HangupSignal, StopSignal
from api.cli.processes.worker_processes import (
    WorkerProcesses,
    ask_to_stop_with_parent,
    on_free_port,
    spread_listeners,
)
from api.cli.program import (
    EXIT_CONFIG,
    EXIT_ERROR,
    EXIT_OK,
    UsageParser,
    positive,
    run_program,
    spare_what_is_loaded,
    tell_missing_parts,
    tune_worker_process,
)
from api.cli.version import add_version
from connect.errors import ConfigError, ConnectError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from api.dedicated.internal_rest import MirrorRestServer
    from api.http_server import ApiServer
    from connect.clock import Deadline
    from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
    from connectors.mirrormaker.mirror_maker import MirrorMaker

__all__ = ["add_run_options", "command", "main", "print_check", "run_flows"]

EXIT_IN_THE_WAY = 1
EXIT_START = 3

PROGRAM = "connect-mirror-maker"

STOP_S = 20.0
"""Time limit for a clean stop, which usually takes much less. Service managers kill after 30 s or
more."""

WATCH_S = 1.0
"""Interval for checking whether any flow still runs and whether the file has changed."""

_ASK_AGAIN_S = 10.0
"""Interval for asking config providers that did not answer."""

log = logging.getLogger(PROGRAM)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = UsageParser(
        prog=PROGRAM,
        description="Mirror topics between Kafka clusters.",
        epilog="Exit codes: 0 stopped cleanly, 1 --check found an error, "
        "2 wrong command line or failed while running, 3 start failed, 78 wrong properties.",
    )
    add_version(parser)
    parser.add_argument(
        "config", type=Path, metavar="mm2.properties", help="MirrorMaker 2 configuration file"
    )
    add_run_options(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help=(
            "connect, print what would be mirrored, created and skipped with the reasons, and "
            "change nothing"
        ),
    )
    # Java accepts both "--clusters a b file" and "file --clusters a b".
    return parser.parse_args(_file_first(list(sys.argv[1:] if argv is None else argv)))


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run_flows` reads, besides `config`."""
    add_log_option(parser)
    parser.add_argument(
        "--clusters",
        nargs="+",
        metavar="ALIAS",
        help="run only flows into these target clusters (default: all)",
    )
    parser.add_argument(
        "--workers",
        type=positive,
        default=1,
        metavar="N",
        help="number of processes to run on this host (default: 1)",
    )
    parser.add_argument("--worker-number", type=positive, default=1, help=argparse.SUPPRESS)


def _file_first(argv: list[str]) -> list[str]:
    """End the list of `--clusters` before a properties file that is the last argument."""
    if "--clusters" in argv and len(argv) > 2 and not argv[-1].startswith("-"):
        listed = argv[argv.index("--clusters") + 1 :]
        if listed and Path(listed[-1]).suffix == ".properties":
            return [listed[-1], *argv[:-1]]
    return argv


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_program(
        PROGRAM,
        lambda: _arguments(argv),
        _main,
        ((ConfigError, EXIT_CONFIG), (ConnectError, EXIT_START)),
        lambda arguments: logging.WARNING if arguments.check else logging.INFO,
        unexpected=EXIT_ERROR,
    )


def _main(arguments: argparse.Namespace) -> int:
    if arguments.check:
        return print_check(_load(arguments.config), arguments.clusters)
    return run_flows(arguments)


def run_flows(arguments: argparse.Namespace) -> int:
    """Run the flows of `arguments.config` until a signal ends them. Returns the exit code. Raises
    the error that prevented the start."""
    # Start to watch before the file is read, so that no later change is missed.
    watch = FileWatch(arguments.config)
    config = _load(arguments.config)
    if arguments.workers > 1:
        return _supervise(config, arguments)
    return _run(config, arguments, watch)


def _load(path: Path) -> MirrorMakerConfig:
    # Slow to import, and not needed for --help.
    from connectors.mirrormaker import flow_lookup

    return flow_lookup.load_file(path)


def _supervise(config: MirrorMakerConfig, arguments: argparse.Namespace) -> int:
    # Report invalid properties once, in the parent, instead of once per process.
    config.validate(arguments.clusters)
    clusters = ["--clusters", *arguments.clusters] if arguments.clusters else []
    own = [str(arguments.config), *clusters]
    processes = WorkerProcesses("api.cli.mirror_maker", own, arguments.workers, pass_hangup=True)
    return processes.run()


def _run(config: MirrorMakerConfig, arguments: argparse.Namespace, watch: FileWatch) -> int:
    """Run the flows in this process. `worker_number`: its number among the processes on this host,
    from 1."""
    from connectors.mirrormaker.mirror_maker import MirrorMaker

    for warning in config.warnings:
        log.warning("%s", warning)
    stop, hangup = StopSignal(), HangupSignal()
    ask_to_stop_with_parent()
    tune_worker_process()
    tell_missing_parts(log)
    number: int = arguments.worker_number
    with _internal_rest(config, number) as rest:
        maker = MirrorMaker(config, arguments.clusters, None if rest is None else rest.reach)
        if rest is not None:
            rest.serve(maker.herder)
        with _metrics_page(config, maker, number) as instance, _otlp(config, maker, instance):
            renewal = _Renewal(maker, arguments.config, watch, hangup, config.valid_s)
            spare_what_is_loaded()
            return _mirror(maker, stop, renewal.look)


class _Renewal:
    """Applies the file as it is now: when it has changed, at SIGHUP, and when values that config
    providers gave are not valid any more. Used by the main thread."""

    def __init__(
        self,
        maker: MirrorMaker,
        path: Path,
        watch: FileWatch,
        hangup: HangupSignal,
        valid_s: float | None,
    ) -> None:
        self._maker, self._path = maker, path
        self._watch, self._hangup = watch, hangup
        self._valid = _deadline(valid_s)

    def look(self) -> None:
        """Apply the file if it is time to. Call once a second."""
        from connect.clock import Deadline

        # Ask both: a change that SIGHUP applies must not be applied again.
        changed, asked = self._watch.changed(), self._hangup.taken()
        expired = self._valid is not None and self._valid.expired()
        if not (changed or asked or expired):
            return
        try:
            config = _load(self._path)
            self._valid = _deadline(config.valid_s)
            self._maker.renew(config, Deadline(STOP_S))
        except ConfigError as error:
            log.error("Ignoring the changes to %s: %s", self._path, error)
        except ConnectError as error:
            # A config provider does not answer. Running flows do not need it now.
            self._valid = _deadline(_ASK_AGAIN_S)
            log.warning("Cannot read %s again, retrying: %s", self._path, error)


def _deadline(seconds: float | None) -> Deadline | None:
    from connect.clock import Deadline

    return None if seconds is None else Deadline(seconds)


def _mirror(maker: MirrorMaker, stop: StopSignal, renew: Callable[[], None]) -> int:
    """Run all flows until a signal arrives or every flow has failed. Returns the exit code."""
    from connect.clock import Deadline

    maker.start()
    try:
        while not stop.wait(WATCH_S):
            if maker.all_failed():
                log.error("every flow has failed; the errors above say why")
                return EXIT_START
            renew()
    finally:
        log.info("stopping")
        ended = maker.stop(Deadline(STOP_S))
    log.info("stopped")
    return EXIT_OK if ended else EXIT_ERROR


@contextmanager
def _internal_rest(config: MirrorMakerConfig, number: int) -> Iterator[MirrorRestServer | None]:
    """Return the internal REST server with its ports bound; None if the processes do not use REST
    to communicate."""
    if not config.enable_internal_rest:
        yield None
        return
    from api.dedicated.internal_rest import MirrorRestServer

    props = config.rest_config()
    server = MirrorRestServer(props if number == 1 else spread_listeners(props))
    try:
        server.bind()
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def _metrics_page(config: MirrorMakerConfig, maker: MirrorMaker, number: int) -> Iterator[str]:
    """Serve `metrics.listener` while the block runs; do nothing if it is empty. Gives a name of
    this process that no other process of the host has."""
    listener = config.metrics_listener
    host = socket.gethostname()
    if not listener:
        yield f"{host}:{os.getpid()}"
        return
    if number > 1:
        listener = on_free_port(listener, "metrics.listener")
    from api.http_server import ApiServer, parse_listener
    from api.rest.config import allowed_hosts

    named, _ = parse_listener(listener, "metrics.listener")
    hosts = allowed_hosts(config.allowed_hosts, [named])

    def make_app() -> ASGIApp:
        from api.dedicated.status_pages import create_app
        from api.rest.middleware import ChangeLog, SameSite

        return ChangeLog(SameSite(create_app(maker), None, hosts))

    server = listening(
        lambda address: ApiServer(make_app, address, "metrics.listener"),
        listener,
        chosen=config.chooses_listener,
    )
    try:
        server.start()
        yield f"{host}:{server.port}"
    finally:
        server.stop()


def listening(make: Callable[[str], ApiServer], listener: str, *, chosen: bool) -> ApiServer:
    """Return a server with its port bound. `chosen`: the operator named the address; otherwise any
    free port does, because several mirrors may run on one host. Raises `ListenerUnavailable`."""
    from api.http_server import ListenerUnavailable

    server = make(listener)
    try:
        server.bind()
    except ListenerUnavailable as error:
        server.stop()
        if chosen:
            raise
        server = make(on_free_port(listener, "metrics.listener"))
        server.bind()
        log.warning(
            "%s. Until then this process serves its pages at %s, a port that differs after each"
            " start",
            error,
            server.url,
        )
    return server


@contextmanager
def _otlp(config: MirrorMakerConfig, maker: MirrorMaker, instance: str) -> Iterator[None]:
    """Send the metrics to OpenTelemetry while the block runs, if that is asked for."""
    from connect.metrics.otlp import otlp_export

    export = otlp_export(maker.metrics, config.otlp_endpoint)
    if export is None:
        yield
        return
    try:
        export.start(instance)
        yield
    finally:
        export.stop()


def print_check(config: MirrorMakerConfig, clusters: Sequence[str] | None) -> int:
    """Print what the flows would do. Returns the exit code."""
    from api.cli.output.check import print_report
    from api.cli.output.read_progress import ASKING, gathering
    from connectors.mirrormaker.check.check import check

    with gathering(ASKING):
        report = check(config, clusters)
    print_report(report)
    return EXIT_OK if report.can_run else EXIT_IN_THE_WAY


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
