"""`connect-standalone`: one Kafka Connect worker without a group, running connectors from files.

    connect-standalone worker.properties [connector.properties connector.json ...]

Source offsets are stored in the database file `offset.storage.file.filename`, or in the database of
`offset.storage.sql.url`. Connectors of the files are created one after the other. More can be
created by REST; the worker forgets them when it ends.

Exit codes:
    0    stopped by SIGTERM or SIGINT, with the final offsets stored; --check: no error found
    1    --check: an error was found
    2    the command line is wrong; the worker could not be started, or did not stop in time
    3    a connector of the files could not be created
    78   the properties are wrong
A second SIGTERM or SIGINT ends the program at once, with 128 and the signal's number.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from api.cli.connector_files import ConnectorFile, read_connector_file
from api.cli.logs import add_log_option
from api.cli.processes.exit_process import leave
from api.cli.program import UsageParser
from api.cli.version import add_version
from api.cli.worker_command import (
    ConnectorNotCreated,
    run_worker,
    run_worker_program,
    worker_properties,
)
from api.cli.worker_start.check_options import add_check_options
from api.cli.worker_start.plugins import plugin_registry
from api.rest.server import RestServer
from connect.clients.config.properties import wire_settings
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connect.metrics.process_metrics import register_process_metrics
from connect.metrics.registry import MetricRegistry
from connect.runtime.herder import Herder
from connect.runtime.standalone.herder import StandaloneHerder
from connect.runtime.worker import Worker
from connect.storage.sql_offset_store import open_sql_offset_store

if TYPE_CHECKING:
    from connectors.mirrormaker.check.report import Finding

__all__ = ["command", "main"]

PROGRAM = "connect-standalone"

log = logging.getLogger(PROGRAM)


def _parser() -> argparse.ArgumentParser:
    parser = UsageParser(
        prog=PROGRAM,
        description="Run connectors in one process, without a group of workers.",
        epilog="Exit codes: 0 stopped cleanly, 1 --check found an error, 2 wrong command line or "
        "start failed, 3 a connector could not be created, 78 wrong properties.",
    )
    add_version(parser)
    add_log_option(parser)
    parser.add_argument("config", metavar="worker.properties", help="the worker's properties file")
    parser.add_argument(
        "connectors",
        nargs="*",
        metavar="connector.properties",
        help="connectors to create: properties files, or JSON files as for POST /connectors",
    )
    add_check_options(
        parser,
        "say whether the properties are right, the cluster answers and the connectors may do what "
        "they need; start nothing",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_worker_program(PROGRAM, argv, _parser, _run)


def _run(arguments: argparse.Namespace) -> int:
    props = worker_properties(arguments.config)
    config = WorkerConfig.for_standalone(props)
    if arguments.check:
        from api.cli.worker_start.check import check_worker

        return check_worker(arguments, config, {}, lambda: _permissions(arguments, config))
    metrics = MetricRegistry()
    register_process_metrics(metrics)
    plugins = plugin_registry(props)

    def make_herder(worker_id: str) -> StandaloneHerder:
        # A cluster that is away may come back, but not one for which no client can be made.
        wire_settings(config.own_client_properties("contact"))
        store = open_sql_offset_store(config)
        return StandaloneHerder(
            Worker(config, plugins, metrics, worker_id=worker_id, offset_store=store)
        )

    def create_connectors(herder: StandaloneHerder) -> None:
        for location in arguments.connectors:
            _create(herder, location)
        herder.set_ready()

    return run_worker(
        RestServer(props, metrics, plugins=plugins), metrics, config, make_herder, create_connectors
    )


def _permissions(arguments: argparse.Namespace, config: WorkerConfig) -> Iterator[Finding]:
    """Ask which permissions the connectors of the command line lack. Raises `ConnectError`."""
    from api.cli.worker_start.connectors import worker_connectors
    from connect.runtime.plugins.connector_clients import ConnectorClients
    from connectors.mirrormaker.check.worker_permission_checks import connector_findings

    plugins = plugin_registry(config.originals)
    clients = ConnectorClients.of_worker(config, plugins)
    for connector in worker_connectors(config, arguments.connectors, plugins):
        yield from connector_findings(clients, connector)


def _create(herder: Herder, location: str) -> None:
    try:
        found: ConnectorFile = read_connector_file(location)
        herder.put_connector_config(
            found.name, found.config, allow_replace=False, initial_state=found.initial_state
        )
    except ConnectError as error:
        raise ConnectorNotCreated(f"Cannot create the connector of {location}: {error}") from error
    log.info("created connector %s", found.name)


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
