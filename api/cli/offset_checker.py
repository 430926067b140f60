"""`kafka-consumer-offset-checker`: how far a group or a flow is behind, partition by partition.

    kafka-consumer-offset-checker --bootstrap-server HOST:PORT --group ID [--topic LIST] [options]
    kafka-consumer-offset-checker --config mm2.properties [--flow 'A->B'] [--topic LIST] [options]

Exit codes:
    0    the table was printed; with --watch: ended by a signal
    1    the command line or a file is wrong
    2    a cluster did not answer, or refused
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from api.cli.output.control_characters import visible
from api.cli.processes.exit_process import leave
from api.cli.processes.stop_signals import StopSignal
from api.cli.program import EXIT_OK, KafkaParser, run_program
from api.cli.version import add_version
from connect.config.properties import load_properties
from connect.config.providers import ConfigProviders
from connect.errors import ConfigError, ConnectError
from connectors.mirrormaker1.offset_checker import PartitionRow, brokers, flow_rows, group_rows

__all__ = ["command", "main", "option_parser", "print_rows"]

PROGRAM = "kafka-consumer-offset-checker"

_FORMAT = "{:<15} {:<30} {:<3} {:<15} {:<15} {:<15} {}"
_ZOOKEEPER = (
    "ZooKeeper is not used any more: offsets are in the brokers. Write "
    "--bootstrap-server HOST:9092 with the address of brokers of the source cluster instead"
)

EXIT_WRONG, EXIT_NO_ANSWER = 1, 2

Rows = Callable[[], list[PartitionRow]]


def option_parser() -> KafkaParser:
    """Return the parser; the options are declared here, and nowhere else."""
    parser = KafkaParser(
        prog=PROGRAM,
        description="Print how far a consumer group, or a flow of MirrorMaker 2, is behind.",
        epilog="Exit codes: 0 printed, 1 wrong command line or file, 2 a cluster did not answer.",
    )
    add_version(parser)
    parser.add_argument("--group", metavar="ID", help="consumer group on --bootstrap-server")
    parser.add_argument(
        "--bootstrap-server", dest="servers", metavar="HOST:PORT", help="brokers of the group"
    )
    parser.add_argument(
        "--command-config",
        dest="client",
        type=Path,
        metavar="FILE",
        help="client properties for --bootstrap-server, for example security",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="mm2.properties",
        help="show what a flow of this file has copied, instead of a group",
    )
    parser.add_argument("--flow", metavar="A->B", help="with --config: the flow, if several copy")
    parser.add_argument(
        "--topic", metavar="LIST", help="only these topics, separated by commas (default: all)"
    )
    parser.add_argument("--broker-info", action="store_true", help="print the brokers as well")
    parser.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=2.0,
        metavar="SECONDS",
        help="print again and again, every 2 seconds by default, until Ctrl-C",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one document each time")
    parser.add_argument(
        "--zookeeper",
        "--zkconnect",
        dest="zookeeper",
        metavar="HOST:PORT",
        help="no longer used: the error names the option to write instead",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_program(
        PROGRAM,
        lambda: option_parser().parse_args(argv),
        _run,
        ((ConfigError, EXIT_WRONG), (OSError, EXIT_WRONG), (ConnectError, EXIT_NO_ANSWER)),
        lambda _: logging.ERROR,
        unexpected=EXIT_NO_ANSWER,
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.zookeeper is not None:
        raise ConfigError(f"--zookeeper {arguments.zookeeper}: {_ZOOKEEPER}")
    rows, client = _source(arguments)
    stop = StopSignal() if arguments.watch is not None else None
    while True:
        found = rows()
        at = brokers(client) if arguments.broker_info else {}
        if arguments.json:
            _print_json(found, at)
        else:
            print_rows(found, at)
        sys.stdout.flush()
        if stop is None or stop.wait(max(0.1, arguments.watch)):
            return EXIT_OK


def _source(arguments: argparse.Namespace) -> tuple[Rows, dict[str, str]]:
    """Return what gives the rows, and the client properties of the brokers that have the logs."""
    topics = None
    if arguments.topic is not None:
        topics = [name.strip() for name in arguments.topic.split(",") if name.strip()]
    if arguments.config is not None:
        if arguments.group is not None or arguments.servers is not None:
            raise ConfigError("--config is for flows: leave out --group and --bootstrap-server")
        return _flow(arguments.config, arguments.flow, topics)
    if arguments.group is None or arguments.servers is None:
        raise ConfigError(
            "Name a consumer group with --bootstrap-server HOST:PORT --group ID, or the flow of a "
            "mirror with --config mm2.properties"
        )
    client = {} if arguments.client is None else load_properties(arguments.client)
    client = ConfigProviders.from_properties(client).resolve(client)
    client["bootstrap.servers"] = arguments.servers
    group = arguments.group
    return lambda: group_rows(client, group, topics), client


def _flow(
    path: Path, name: str | None, topics: Sequence[str] | None
) -> tuple[Rows, dict[str, str]]:
    from connectors.mirror.config.clients import source_admin
    from connectors.mirrormaker.flow_lookup import named_flow

    flow = named_flow(path, name)
    return lambda: flow_rows(flow, topics), source_admin(flow.properties)


def print_rows(rows: Sequence[PartitionRow], at: dict[int, str]) -> None:
    """Print the table, and the brokers if there are any, as Kafka 0.8 did."""
    print(_FORMAT.format("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"))
    for row in rows:
        offset = "unknown" if row.offset is None else row.offset
        lag = "unknown" if row.lag is None else row.lag
        owner = visible(row.owner or "none")
        print(_FORMAT.format(row.group, row.topic, row.partition, offset, row.log_size, lag, owner))
    if at:
        print("BROKER INFO")
        for number, address in sorted(at.items()):
            print(f"{number} -> {address}")


def _print_json(rows: Sequence[PartitionRow], at: dict[int, str]) -> None:
    document: dict[str, object] = {
        "partitions": [{**asdict(row), "lag": row.lag} for row in rows],
    }
    if at:
        document["brokers"] = {str(number): address for number, address in sorted(at.items())}
    print(json.dumps(document))


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
