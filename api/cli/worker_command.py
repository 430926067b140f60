"""Shared by the commands of Connect workers: properties, start, stop and exit codes.

Exit codes are Kafka Connect's: 0 stopped cleanly; 2 the worker could not start or did not stop in
time; 3 a connector of the command line could not be created. But 78 (EX_CONFIG) tells wrong
properties from failures, for which Java ends with 2, too; a wrong command line ends with 2, and
--help with 0, as for every other command of ours, where Java ends with 1.
"""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from api.cli.processes.stop_signals import StopSignal
from api.cli.program import (
    EXIT_CONFIG,
    EXIT_ERROR,
    EXIT_OK,
    STOP_S,
    ExitCodes,
    run_program,
    spare_what_is_loaded,
    tell_missing_parts,
    tune_worker_process,
)
from api.cli.worker_start.check_options import check_options
from api.cli.worker_start.cluster_contact import ClusterContact
from api.rest.server import RestServer
from connect.clock import Deadline
from connect.config.properties import load_properties
from connect.config.providers import ConfigProviders
from connect.config.worker import WorkerConfig
from connect.errors import BrokerUnavailable, ConfigError, ConnectError, RetriableError
from connect.metrics.otlp import otlp_export
from connect.metrics.registry import MetricRegistry
from connect.runtime.herder import Herder
from connect.storage.offset_store import READ_S
from connectors.spark.properties import configure_worker

__all__ = [
    "WORKER_CODES",
    "ConnectorNotCreated",
    "run_worker",
    "run_worker_program",
    "worker_properties",
]

START_S = READ_S
"""Time limit for a start, most of which reads the worker's stored topics."""

_STARTING_POLL_S, _RUNNING_POLL_S = 0.1, 1.0

log = logging.getLogger("connect-worker")

H = TypeVar("H", bound=Herder)


class ConnectorNotCreated(ConnectError):
    """A connector of the command line could not be created. The message contains its name and the
    reason."""


WORKER_CODES: ExitCodes = (
    (ConnectorNotCreated, 3),
    (ConfigError, EXIT_CONFIG),
    (ConnectError, EXIT_ERROR),
)


def run_worker_program(
    program: str,
    argv: Sequence[str] | None,
    make_parser: Callable[[], argparse.ArgumentParser],
    run: Callable[[argparse.Namespace], int],
) -> int:
    """Run the program of a worker and return its exit code. The parser has the options of
    `--check`."""

    def parse() -> argparse.Namespace:
        parser = make_parser()
        arguments = parser.parse_args(argv)
        check_options(parser, arguments)
        return arguments

    return run_program(
        program, parse, run, WORKER_CODES, lambda _: logging.INFO, unexpected=EXIT_ERROR
    )


def worker_properties(location: str) -> dict[str, str]:
    """Read a worker's properties and resolve config providers. Raises ConfigError.

    An empty location gives no properties, as in Java. The worker's `spark.*` properties become
    defaults of its connectors.
    """
    if not location:
        return {}
    props = load_properties(location)
    resolved = ConfigProviders.from_properties(props).resolve(props)
    configure_worker(resolved)
    return resolved


def run_worker(
    rest: RestServer,
    metrics: MetricRegistry,
    config: WorkerConfig,
    make_herder: Callable[[str], H],
    after_start: Callable[[H], None],
) -> int:
    """Run a worker until a signal ends it. Returns the exit code. Called on the main thread.

    `metrics`: the worker's, which are sent to OpenTelemetry if the config or the environment says
    so. `make_herder` receives the worker's ID. `after_start` does the part of the start that needs
    a running herder. Raises the error that prevented the start.
    """
    export = otlp_export(metrics, config.otlp_endpoint)
    tune_worker_process()
    tell_missing_parts(log)
    stop = StopSignal()
    rest.bind()
    contact = ClusterContact(config.own_client_properties("contact"))
    startup = _Startup(rest, make_herder, after_start, contact)
    rest.explain_trouble(lambda: contact.trouble)
    try:
        rest.start()
        contact.start()
        if export is not None:
            export.start(rest.worker_id)
        spare_what_is_loaded()
        startup.begin()
        while not stop.wait(_STARTING_POLL_S if startup.running else _RUNNING_POLL_S):
            startup.check()
    finally:
        log.info("stopping")
        contact.stop()
        if export is not None:
            export.stop()
        deadline = Deadline(STOP_S)
        rest.stop()
        ended = startup.stop(deadline)
    log.info("stopped")
    return EXIT_OK if ended else EXIT_ERROR


class _Startup(Generic[H]):
    """Starts the herder on its own thread, so that the main thread can handle signals meanwhile."""

    def __init__(
        self,
        rest: RestServer,
        make_herder: Callable[[str], H],
        after_start: Callable[[H], None],
        contact: ClusterContact,
    ) -> None:
        self._rest = rest
        self._contact = contact
        self._make_herder = make_herder
        self._after_start = after_start
        self._herder: H | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="worker-start", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def check(self) -> None:
        """Raise the error that ended the start or, later, the herder."""
        if self._error is not None:
            raise self._error
        if self._herder is not None:
            self._herder.check()

    def stop(self, deadline: Deadline) -> bool:
        """Stop the herder if it has started. An unfinished start holds no resources that outlive
        the process."""
        herder = self._herder
        return True if herder is None else herder.stop(deadline)

    def _run(self) -> None:
        try:
            herder = self._make_herder(self._rest.worker_id)
            self._rest.herder_starting(herder)
            herder.start(Deadline(START_S))
            self._herder = herder
            self._rest.herder_started(herder)
            self._after_start(herder)
            self._rest.worker_ready()
            log.info("worker %s is ready; REST is at %s", self._rest.worker_id, self._url)
        except RetriableError as error:
            # The client knows only that nobody answered in time.
            trouble = self._contact.trouble
            self._error = error if trouble is None else BrokerUnavailable(f"{trouble} ({error})")
        except Exception as error:  # noqa: BLE001 - the top of a thread; the main thread raises it
            self._error = error

    @property
    def _url(self) -> str:
        return self._rest.advertised_url
