"""`connect-mirror-client start`: where a flow begins that takes over from another tool."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from api.cli.output.mirror_client import Output
from api.cli.program import EXIT_OK, add_timeout_option
from connect.clock import Deadline
from connect.errors import ConfigError
from connect.protocol.messages import TopicPartition
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.given_offsets import (
    DEFAULT_OFFSETS_TOPIC,
    read_connector_offsets,
    read_offsets_file,
)
from connectors.mirror.inspect.start_offsets import starts, store_starts
from connectors.mirrormaker.flow_lookup import named_flow

__all__ = ["add_arguments", "run"]


def add_arguments(start: argparse.ArgumentParser) -> None:
    """Declare the options."""
    start.add_argument(
        "--config", type=Path, metavar="FILE", required=True, help="mm2.properties file"
    )
    start.add_argument("--flow", metavar="A->B", help="the flow, if several copy")
    origin = start.add_mutually_exclusive_group(required=True)
    origin.add_argument(
        "--group", metavar="ID", help="begin at the committed offsets of this group of the source"
    )
    origin.add_argument(
        "--timestamp",
        type=_timestamp_ms,
        metavar="TIME",
        help="begin with the first records from this time on: ISO 8601 (UTC unless it says "
        "otherwise), or milliseconds since 1970",
    )
    origin.add_argument(
        "--file",
        type=Path,
        metavar="FILE",
        help="begin at the offsets of lines topic,partition,offset, or of the JSON that GET "
        "/connectors/NAME/offsets of Kafka Connect answers",
    )
    origin.add_argument(
        "--connector",
        metavar="NAME",
        help="begin at the offsets that Kafka Connect stored for this connector: of Confluent "
        "Replicator or MirrorSourceConnector",
    )
    start.add_argument(
        "--offsets-topic",
        metavar="TOPIC",
        help="with --connector: the offset.storage.topic of its workers, on the target cluster "
        f"(default: {DEFAULT_OFFSETS_TOPIC})",
    )
    start.add_argument(
        "--commit", action="store_true", help="store the offsets (default: only show them)"
    )
    add_timeout_option(start)
    start.add_argument("--json", action="store_true", help="print one JSON document")


def _timestamp_ms(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither ISO 8601, such as 2025-03-01T12:00:00, nor milliseconds"
        ) from error
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1000)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Show or store the offsets; return the exit code. Raises `ConfigError` and `ConnectError`."""
    if arguments.offsets_topic is not None and arguments.connector is None:
        raise ConfigError("--offsets-topic needs --connector NAME: the topic has those of several")
    flow = named_flow(arguments.config, arguments.flow)
    if not flow.config.enabled:
        raise ConfigError(f"{flow.name} is not enabled", key=f"{flow.name}.enabled")
    deadline = Deadline(arguments.timeout)
    found = starts(
        flow,
        deadline,
        group=arguments.group,
        timestamp_ms=arguments.timestamp,
        offsets=_given(arguments, flow, deadline),
    )
    if arguments.commit:
        store_starts(flow, found, deadline)
    output.starts(found, stored=arguments.commit)
    return EXIT_OK


def _given(
    arguments: argparse.Namespace, flow: DedicatedFlow, deadline: Deadline
) -> dict[TopicPartition, int] | None:
    """Return the offsets of --file or --connector; None if neither is given."""
    if arguments.file is not None:
        return read_offsets_file(arguments.file, flow.config.source_cluster_alias)
    if arguments.connector is None:
        return None
    topic = arguments.offsets_topic or DEFAULT_OFFSETS_TOPIC
    return read_connector_offsets(flow, arguments.connector, topic, deadline)
