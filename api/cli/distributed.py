"""`connect-distributed`: a Kafka Connect worker in a group of workers.

    connect-distributed [--workers N] worker.properties

Workers with the same `group.id` share connectors and tasks. They may run on any number of hosts,
and Java workers may join. Connector configs, source offsets and statuses are stored in the topics
that the properties name, so connectors survive the loss of all workers. Connectors are created by
REST on any worker.

`--workers N` runs N worker processes of the group on this host. The first uses the listeners of the
properties; the others listen on the same hosts and free ports, and advertise those ports to the
group.

Exit codes:
    0    stopped by SIGTERM or SIGINT, with the final offsets stored; --check: no error found
    1    --check: an error was found
    2    the command line is wrong; the worker could not be started, failed while it ran, or did
         not stop in time
    78   the properties are wrong
A second SIGTERM or SIGINT ends the program at once, with 128 and the signal's number.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import NoReturn

from api.cli.logs import add_log_option
from api.cli.processes.exit_process import leave
from api.cli.processes.worker_processes import (
    WorkerProcesses,
    ask_to_stop_with_parent,
    spread_listeners,
)
from api.cli.program import UsageParser, positive
from api.cli.version import add_version
from api.cli.worker_command import (
    run_worker,
    run_worker_program,
    worker_properties,
)
from api.cli.worker_start.check_options import add_check_options
from api.cli.worker_start.plugins import plugin_registry
from api.rest.server import RestServer
from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connect.metrics.process_metrics import register_process_metrics
from connect.metrics.registry import MetricRegistry
from connect.runtime.distributed.factory import distributed_herder
from connect.runtime.distributed.group_config import DistributedConfig
from connect.runtime.distributed.herder import DistributedHerder

__all__ = ["command", "main", "run"]

PROGRAM = "connect-distributed"

# Interval at which the wait for the group checks whether the herder has failed.
_READY_POLL_S = 1.0

log = logging.getLogger(PROGRAM)


def _parser() -> argparse.ArgumentParser:
    parser = UsageParser(
        prog=PROGRAM,
        description="Run a worker of a Kafka Connect cluster.",
        epilog=(
            "Exit codes: 0 stopped cleanly, 1 --check found an error, 2 wrong command line, the "
            "start failed or the worker ended unexpectedly, 78 wrong properties."
        ),
    )
    add_version(parser)
    add_log_option(parser)
    parser.add_argument("config", metavar="worker.properties", help="the worker's properties file")
    parser.add_argument(
        "--workers",
        type=positive,
        default=1,
        metavar="N",
        help="number of worker processes to run on this host (default: 1)",
    )
    add_check_options(
        parser,
        "say whether the cluster answers, what would be created and which permissions are "
        "missing; change nothing",
    )
    parser.add_argument("--worker-number", type=positive, default=0, help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_worker_program(PROGRAM, argv, _parser, _main)


def _main(arguments: argparse.Namespace) -> int:
    if arguments.check:
        return _check(arguments)
    if arguments.workers == 1:
        return run(arguments.config, arguments.worker_number)
    processes = WorkerProcesses("api.cli.distributed", [arguments.config], arguments.workers)
    # Report invalid properties once, in the parent, instead of once per process.
    DistributedConfig.from_properties(worker_properties(arguments.config))
    return processes.run()


def _check(arguments: argparse.Namespace) -> int:
    from api.cli.worker_start.check import check_worker
    from connectors.mirrormaker.check.worker_permission_checks import worker_findings
    from connectors.mirrormaker.worker_permissions import worker_permissions

    props = worker_properties(arguments.config)
    group, worker = DistributedConfig.from_properties(props), WorkerConfig.from_properties(props)
    offsets = TopicSpec(
        worker.offset_storage_topic,
        worker.offset_storage_partitions,
        worker.offset_storage_replication_factor,
        worker.offset_storage_topic_configs,
    )
    topics = {"offset": offsets, "status": group.status_topic, "config": group.config_topic}
    wanted = worker_permissions(group, worker.offset_storage_topic)
    return check_worker(arguments, worker, topics, lambda: worker_findings(worker, wanted))


def run(config_file: str, number: int = 0, clock: Clock = SYSTEM_CLOCK) -> int:
    """Run one worker until a signal arrives. Returns the exit code.

    `number`: the number of this process among several, from 1; 0 if it is the only one. Raises the
    error that prevented the start.
    """
    ask_to_stop_with_parent()
    props = worker_properties(config_file)
    if number > 1:
        props = spread_listeners(props)
    metrics = MetricRegistry()
    register_process_metrics(metrics)
    plugins = plugin_registry(props)
    rest = RestServer(props, metrics, plugins=plugins)

    def make_herder(worker_id: str) -> DistributedHerder:
        return distributed_herder(
            props,
            plugins,
            metrics,
            worker_id=worker_id,
            url=rest.advertised_url,
            client=rest.client,
            clock=clock,
        )

    config = WorkerConfig.from_properties(props)
    return run_worker(rest, metrics, config, make_herder, _await_group)


def _await_group(herder: DistributedHerder) -> None:
    while not herder.await_ready(_READY_POLL_S):
        if herder.ended:
            raise ConnectError("The worker was stopped before it joined its group")


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
