"""`kafka-mirror-maker`: MirrorMaker 1's command line, on the batch copier.

    kafka-mirror-maker --consumer.config FILE [--consumer.config FILE ...]
                       --producer.config FILE (--include LIST | --exclude LIST) [options]

Processes with one group.id share the partitions of the source and take over from each other.

Exit codes:
    0    stopped by SIGTERM or SIGINT, with the last offsets committed
    1    the command line or a file is wrong
    255  a mirror stopped because a record could not be written, or after another error
A second SIGTERM or SIGINT ends the program at once, with 128 and the signal's number.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from api.cli.processes.exit_process import leave
from api.cli.processes.process_group import ProcessGroup
from api.cli.processes.stop_signals import StopSignal
from api.cli.processes.worker_processes import ask_to_stop_with_parent
from api.cli.program import (
    EXIT_OK,
    STOP_S,
    KafkaParser,
    positive,
    run_program,
    spare_what_is_loaded,
    tell_missing_parts,
    tune_worker_process,
)
from api.cli.version import add_version
from connect.clock import Deadline
from connect.config.properties import load_properties
from connect.config.providers import ConfigProviders
from connect.errors import ConfigError, ConnectError
from connectors.mirrormaker1 import client_properties
from connectors.mirrormaker1.mirror_maker1 import MirrorMaker1
from connectors.mirrormaker1.plugins import (
    HANDLERS,
    LISTENERS,
    MessageHandler,
    RebalanceListener,
    load_plugin,
)
from connectors.mirrormaker1.settings import MirrorSettings, SourceFile
from connectors.mirrormaker1.topics import TopicList

__all__ = ["command", "main", "option_parser"]

EXIT_WRONG, EXIT_STOPPED = 1, 255
"""The exit codes of MirrorMaker 1; the second is its exit(-1)."""

PROGRAM = "kafka-mirror-maker"

_WATCH_S = 0.2
_KILL_AFTER_S = 5.0
_COMMIT_MS = 60_000
_ZOOKEEPER = (
    "ZooKeeper is not used any more. Write bootstrap.servers=HOST:9092 in the file of "
    "--consumer.config for the source, and in that of --producer.config for the target"
)

log = logging.getLogger(PROGRAM)


def option_parser() -> KafkaParser:
    """Return the parser; the options are declared here, and nowhere else."""
    parser = KafkaParser(
        prog=PROGRAM,
        description="Copy topics continuously from one or more Kafka clusters to another, under "
        "the same names, as a consumer group of the source.",
        epilog="Exit codes: 0 stopped by a signal, 1 wrong command line or file, 255 stopped "
        "after a failure.",
    )
    add_version(parser)
    parser.add_argument(
        "--consumer.config",
        dest="consumers",
        metavar="FILE",
        type=Path,
        action="append",
        required=True,
        help="consumer properties of a source cluster; once for each source",
    )
    parser.add_argument(
        "--producer.config",
        dest="producer",
        metavar="FILE",
        type=Path,
        required=True,
        help="producer properties of the target cluster",
    )
    parser.add_argument(
        "--include",
        "--whitelist",
        dest="include",
        metavar="REGEX",
        help="topics to mirror: a Java regular expression; a comma means |",
    )
    parser.add_argument(
        "--exclude",
        "--blacklist",
        dest="exclude",
        metavar="REGEX",
        help="mirror all topics but these, instead of --include",
    )
    _add_copying(parser)
    _add_plugins(parser)
    _add_former(parser)
    return parser


def _add_copying(parser: KafkaParser) -> None:
    parser.add_argument(
        "--offset.commit.interval.ms",
        dest="commit_ms",
        metavar="MS",
        type=positive,
        default=_COMMIT_MS,
        help=f"how often acknowledged offsets are committed (default: {_COMMIT_MS})",
    )
    parser.add_argument(
        "--abort.on.send.failure",
        "--abort.on.send.fail",
        "--abortOnSendFail",
        dest="abort",
        metavar="true|false",
        type=_boolean,
        nargs="?",
        const=True,
        default=True,
        help="whether to stop if the target rejects a record permanently (default: true); false: "
        "skip the record, log and count it",
    )


def _add_plugins(parser: KafkaParser) -> None:
    parser.add_argument(
        "--message.handler",
        dest="handler",
        metavar="CLASS",
        help="Python class that decides what is written for each record: module:Class or an entry "
        "point",
    )
    parser.add_argument(
        "--message.handler.args",
        dest="handler_args",
        metavar="TEXT",
        help="argument of the handler's constructor",
    )
    parser.add_argument(
        "--consumer.rebalance.listener",
        dest="listener",
        metavar="CLASS",
        help="Python class that is notified of rebalances: module:Class or an entry point",
    )
    parser.add_argument(
        "--rebalance.listener.args",
        dest="listener_args",
        metavar="TEXT",
        help="argument of the listener's constructor",
    )


def _add_former(parser: KafkaParser) -> None:
    """Options that are accepted so that command lines need not change."""
    parser.add_argument(
        "--num.streams",
        dest="streams",
        metavar="N",
        type=positive,
        default=1,
        help="how many members of the group copy, each a process of its own (default: 1); at most "
        "one for each CPU",
    )
    parser.add_argument("--stream", type=int, help=argparse.SUPPRESS)
    parser.add_argument(
        "--num.producers",
        dest="producers",
        metavar="N",
        type=positive,
        default=1,
        help="accepted without effect: every broker of the target has its own connection",
    )
    parser.add_argument(
        "--queue.size",
        dest="queue",
        metavar="N",
        type=positive,
        help="accepted without effect: there is no queue between consumer and producer",
    )
    parser.add_argument(
        "--new.consumer",
        action="store_true",
        help="accepted without effect: there is no other consumer",
    )
    parser.add_argument(
        "--zkconnect",
        "--zookeeper",
        "--zk.connect",
        dest="zookeeper",
        metavar="HOST:PORT",
        help="no longer used: the error names the line to write instead",
    )


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"Invalid value {text}: use true or false")
    return lowered == "true"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_program(
        PROGRAM,
        lambda: _parsed(sys.argv[1:] if argv is None else argv),
        _run,
        ((ConfigError, EXIT_WRONG), (OSError, EXIT_WRONG), (ConnectError, EXIT_STOPPED)),
        lambda _: logging.INFO,
        unexpected=EXIT_STOPPED,
    )


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line, and keep it for the processes of streams."""
    return option_parser().parse_args(argv, argparse.Namespace(given=list(argv)))


def _run(arguments: argparse.Namespace) -> int:
    if arguments.zookeeper is not None:
        raise ConfigError(f"--zkconnect {arguments.zookeeper}: {_ZOOKEEPER}")
    streams = min(arguments.streams, os.cpu_count() or 1)
    if streams > 1 and arguments.stream is None:
        return _supervise(arguments, streams)
    if arguments.stream is None:
        _name_ignored(arguments, streams)
    stop = StopSignal()
    ask_to_stop_with_parent()
    tune_worker_process()
    tell_missing_parts(log)
    sources, settings = _configured(arguments)
    maker = MirrorMaker1(sources, settings)
    spare_what_is_loaded()
    maker.start()
    failure = None
    try:
        while failure is None and not stop.wait(_WATCH_S):
            failure = maker.failure()
    finally:
        ended_well = maker.stop(Deadline(STOP_S))
    if failure is not None:
        log.error("stopped: %s", failure)
    return EXIT_OK if ended_well and failure is None else EXIT_STOPPED


def _supervise(arguments: argparse.Namespace, streams: int) -> int:
    """Run a process for each stream; when one ends by itself, all end, as Java's threads did."""
    # Wrong files are told once, here.
    _name_ignored(arguments, streams)
    _topics(arguments)
    _sources(arguments)
    _read(arguments.producer, client_properties.producer, tell=True)
    program = [sys.executable, "-P", "-m", "api.cli.kafka_mirror_maker"]
    group = ProcessGroup(
        [[*program, "--stream", str(number), *arguments.given] for number in range(streams)]
    )
    stop = StopSignal()
    group.start()
    ended = None
    try:
        while ended is None and not stop.wait(_WATCH_S):
            ended = group.ended()
    finally:
        ended_well = group.stop(Deadline(STOP_S + _KILL_AFTER_S))
    if ended is not None:
        log.error(
            "a stream ended with code %d, so all are stopped; the errors above say why", ended
        )
        return ended or EXIT_STOPPED
    return EXIT_OK if ended_well else EXIT_STOPPED


def _sources(arguments: argparse.Namespace) -> list[SourceFile]:
    translate = partial(client_properties.consumer, stream=arguments.stream or 0)
    tell = arguments.stream is None
    return [
        SourceFile(path.stem, _read(path, translate, tell=tell)) for path in arguments.consumers
    ]


def _configured(arguments: argparse.Namespace) -> tuple[list[SourceFile], MirrorSettings]:
    """Return what the command line and the files say. Raises `ConfigError`."""
    topics = _topics(arguments)
    sources = _sources(arguments)
    tell = arguments.stream is None
    producer = _read(arguments.producer, client_properties.producer, tell=tell)
    handler = listener = None
    if arguments.handler is not None:
        handler = load_plugin(
            "--message.handler",
            arguments.handler,
            arguments.handler_args,
            MessageHandler,
            HANDLERS,
        )
    if arguments.listener is not None:
        listener = load_plugin(
            "--consumer.rebalance.listener",
            arguments.listener,
            arguments.listener_args,
            RebalanceListener,
            LISTENERS,
        )
    return sources, MirrorSettings(
        arguments.producer.stem,
        producer,
        topics,
        arguments.commit_ms,
        arguments.abort,
        handler,
        listener,
    )


def _topics(arguments: argparse.Namespace) -> TopicList:
    if (arguments.include is None) == (arguments.exclude is None):
        raise ConfigError(
            "Use exactly one of --include (--whitelist) and --exclude (--blacklist): they say "
            "which topics are mirrored, for example --include 'orders|payments.*'"
        )
    if arguments.include is not None:
        topics = TopicList("--include", arguments.include)
    else:
        topics = TopicList("--exclude", arguments.exclude, excludes=True)
    if topics.internal:
        log.info("leaving out Kafka's internal topics: %s", ", ".join(topics.internal))
    return topics


def _read(path: Path, translate: client_properties.Translate, *, tell: bool) -> dict[str, str]:
    """Read one file, and log what there is to `tell` about its keys."""
    found = translate(path.name, load_properties(path))
    if tell:
        for warning in found.warnings:
            log.warning("%s", warning)
    return ConfigProviders.from_properties(found.properties).resolve(found.properties)


def _name_ignored(arguments: argparse.Namespace, streams: int) -> None:
    """Log options that are accepted without effect."""
    for option, ignored, reason in (
        (
            f"--num.streams above {streams}",
            arguments.streams > streams,
            "there are no more CPUs",
        ),
        (
            "--num.producers",
            arguments.producers > 1,
            "every broker of the target has a connection of its own",
        ),
        ("--queue.size", arguments.queue is not None, "there is no queue"),
    ):
        if ignored:
            log.warning("%s has no effect: %s", option, reason)


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
