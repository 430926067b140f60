"""`connect-mirror-client`: show what is mirrored into a cluster, and move consumer groups.

    connect-mirror-client clusters  WHERE [--json]
    connect-mirror-client topics    WHERE [--from ALIAS] [--json]
    connect-mirror-client history   [--url URL] [--limit N] [--json]
    connect-mirror-client acls      (--config mm2.properties |
                                    --worker worker.properties [--connector FILE ...])
                                    --principal User:NAME
    connect-mirror-client translate WHERE --from ALIAS [--to ALIAS] (--group ID | --groups PATTERN)
                                    [--checkpoints] [--dry-run | --commit [--rewind]] [--json]
    connect-mirror-client start     --config FILE [--flow 'A->B']
                                    (--group ID | --timestamp TIME | --file FILE |
                                    --connector NAME [--offsets-topic TOPIC]) [--commit]

WHERE names the target cluster: `--config mm2.properties` with `--to ALIAS`, or `--bootstrap
HOST:PORT` with `--command-config FILE` for its security and replication policy.

Exit codes:
    0    done
    1    a cluster did not answer
    2    the command line is wrong
    3    translate: not everything could be translated or committed, as the output says
    78   the properties are wrong
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from api.cli import acls, hidden_topics, start_offsets
from api.cli.output.mirror_client import Output
from api.cli.output.read_progress import ASKING, gathering
from api.cli.processes.exit_process import leave
from api.cli.program import (
    EXIT_CONFIG,
    EXIT_DIFFERENT,
    EXIT_FAILED,
    EXIT_OK,
    UsageParser,
    add_timeout_option,
    run_program,
)
from api.cli.version import add_version
from connect.clock import Deadline
from connect.config.java_regex import JavaRegex, JavaRegexError, compile_java_regex, literal_regex
from connect.config.properties import load_properties
from connect.config.providers import ConfigProviders
from connect.config.types import SecretStr
from connect.errors import ConfigError, ConnectError, RetriableError
from connectors.mirror.client import MirrorClient
from connectors.mirror.failover import (
    FlowProps,
    MoveClusters,
    MovePlan,
    commit_moves,
    plan_move,
)
from connectors.mirror.history.database import read_events
from connectors.mirrormaker.config.mm2_properties import Flow, MirrorMakerConfig
from connectors.mirrormaker.required_permissions import Feature

__all__ = [
    "add_history_options",
    "add_topics_options",
    "add_translate_options",
    "command",
    "history_url",
    "main",
    "run_clusters",
    "run_history",
    "run_topics",
    "run_translate",
]

PROGRAM = "connect-mirror-client"

_PASSWORD_IN_URL = re.compile(r"[^/]+://[^/@]*:[^/]+@|.*[?&]password=", re.IGNORECASE)
_CONNECTOR = "MirrorCheckpointConnector"


def _parser() -> UsageParser:
    where = UsageParser(add_help=False)
    cluster = where.add_mutually_exclusive_group(required=True)
    cluster.add_argument(
        "--config", type=Path, metavar="FILE", help="mm2.properties file that names the clusters"
    )
    cluster.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="bootstrap server of the target cluster"
    )
    where.add_argument("--to", metavar="ALIAS", help="alias of the target cluster")
    where.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help=(
            "with --bootstrap: client properties for security, the replication policy and "
            "offset-syncs.topic.location"
        ),
    )
    add_timeout_option(where)
    where.add_argument("--json", action="store_true", help="print one JSON document")
    parser = UsageParser(
        prog=PROGRAM,
        description="Show what is mirrored into a cluster, move consumer groups between "
        "clusters, and print the ACLs that flows need.",
        epilog="Exit codes: 0 done, 1 a cluster did not answer, 2 wrong command line, 3 not "
        "everything could be translated or committed, 78 wrong properties.",
    )
    add_version(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "clusters", parents=[where], help="list upstream clusters and their distance in hops"
    )
    topics = commands.add_parser(
        "topics", parents=[where], help="list heartbeats, checkpoints and copied topics"
    )
    add_topics_options(topics)
    translate = commands.add_parser(
        "translate",
        parents=[where],
        help="translate the offsets of consumer groups to the target",
    )
    add_translate_options(translate)
    translate.add_argument(
        "--from-bootstrap",
        metavar="HOST:PORT",
        help="with --bootstrap: bootstrap server of that cluster",
    )
    start_offsets.add_arguments(
        commands.add_parser(
            "start", help="set where a flow begins that takes over from another tool"
        )
    )
    acls.add_arguments(
        commands.add_parser(
            "acls", help="print kafka-acls.sh commands that grant what flows or workers need"
        )
    )
    history = commands.add_parser(
        "history", help=("show lost records, quarantined records and stalls")
    )
    add_history_options(history)
    history.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def add_topics_options(topics: argparse.ArgumentParser) -> None:
    """Add the options of `topics` besides those that name the cluster."""
    topics.add_argument(
        "--from", dest="source", metavar="ALIAS", help="list only topics copied from this cluster"
    )


def add_history_options(history: argparse.ArgumentParser) -> None:
    """Add the options of `history` besides the format."""
    where_history = history.add_mutually_exclusive_group()
    where_history.add_argument(
        "--url",
        metavar="URL",
        help="URL of the history database, as in mirror.history.url (default: the default file); "
        "for one with a password use --url-file",
    )
    where_history.add_argument(
        "--url-file", metavar="FILE", help="file that contains the URL and nothing else"
    )
    history.add_argument(
        "--limit", type=int, default=100, metavar="N", help=("show only the newest N events")
    )


def add_translate_options(translate: argparse.ArgumentParser) -> None:
    """Add the options of `translate` besides those that name the clusters."""
    translate.add_argument(
        "--from",
        dest="source",
        metavar="ALIAS",
        required=True,
        help="cluster that the groups consume from",
    )
    groups = translate.add_mutually_exclusive_group(required=True)
    groups.add_argument("--group", metavar="ID", help="ID of one group")
    groups.add_argument(
        "--groups",
        metavar="PATTERN",
        help="all groups whose whole ID matches this regular expression",
    )
    translate.add_argument(
        "--checkpoints",
        action="store_true",
        help="use the checkpoints, without contacting the source cluster",
    )
    act = translate.add_mutually_exclusive_group()
    act.add_argument("--dry-run", action="store_true", help="only show the offsets (the default)")
    act.add_argument(
        "--commit", action="store_true", help="commit the offsets of groups without members"
    )
    translate.add_argument(
        "--rewind",
        action="store_true",
        help="with --commit: also commit offsets that move a group back",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_program(
        PROGRAM,
        lambda: _parser().parse_args(argv),
        _run,
        ((ConfigError, EXIT_CONFIG), (OSError, EXIT_FAILED), (ConnectError, EXIT_FAILED)),
        lambda _: logging.ERROR,
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "acls":
        return acls.run(arguments)
    run = {
        "clusters": run_clusters,
        "topics": run_topics,
        "translate": run_translate,
        "history": run_history,
        "start": start_offsets.run,
    }[arguments.command]
    return run(arguments, Output(sys.stdout, as_json=arguments.json))


# Commands that only read.


def _client(arguments: argparse.Namespace) -> MirrorClient:
    if arguments.config is None:
        props = {**_command_config(arguments), "bootstrap.servers": arguments.bootstrap}
    else:
        config = MirrorMakerConfig.from_file(arguments.config)
        props = config.client_config(_alias(config, "--to", arguments.to))
    return MirrorClient(props, timeout_s=arguments.timeout)


def run_clusters(arguments: argparse.Namespace, output: Output) -> int:
    with _client(arguments) as client:
        output.clusters({a: client.replication_hops(a) for a in client.upstream_clusters()})
        _warn_of_hidden(arguments, client, Feature.CLUSTERS)
    return EXIT_OK


def run_topics(arguments: argparse.Namespace, output: Output) -> int:
    with _client(arguments) as client:
        output.topics(
            heartbeats=client.heartbeat_topics(),
            checkpoints=client.checkpoint_topics(),
            remote={
                topic: client.replication_policy.topic_source(topic) or ""
                for topic in client.remote_topics(arguments.source)
            },
        )
        _warn_of_hidden(arguments, client, Feature.TOPICS)
    return EXIT_OK


def _warn_of_hidden(
    arguments: argparse.Namespace, client: MirrorClient, listing: hidden_topics.Listing
) -> None:
    if arguments.config is not None:
        config = MirrorMakerConfig.from_file(arguments.config)
        target = _alias(config, "--to", arguments.to)
        expected = hidden_topics.expected_topics(config, target, listing)
        hidden_topics.warn_of_hidden(client, expected)


def run_history(arguments: argparse.Namespace, output: Output) -> int:
    output.events(read_events(history_url(arguments), max(1, arguments.limit)))
    return EXIT_OK


def history_url(arguments: argparse.Namespace) -> SecretStr | None:
    """Return the URL that --url or --url-file gives; None if neither is given. Raises
    `ConfigError`."""
    if arguments.url_file is not None:
        try:
            return SecretStr(Path(arguments.url_file).read_text().strip())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Cannot read --url-file {arguments.url_file}: {error}") from error
    if arguments.url is None:
        return None
    # Everybody on the machine can read the arguments of a program.
    if _PASSWORD_IN_URL.match(arguments.url):
        raise ConfigError(
            "Invalid value [hidden] for --url: it contains a password, which others on this "
            "machine can see; put the URL into a file and name that with --url-file"
        )
    return SecretStr(arguments.url)


# The translate command.


def run_translate(arguments: argparse.Namespace, output: Output) -> int:
    clusters = _move_clusters(arguments)
    deadline = Deadline(arguments.timeout)
    with gathering(ASKING):
        plan = _plan(arguments, clusters, _pattern(arguments), deadline)
    outcome: Mapping[str, str | None] | None = None
    if arguments.commit:
        outcome = commit_moves(clusters, plan.offsets, deadline, rewind=arguments.rewind)
        _record_move(clusters, outcome)
    output.move(plan, outcome, rewind=arguments.rewind)
    whole = all(row.new_offset is not None for row in plan.offsets) and not plan.unreadable
    left = plan.ahead if arguments.commit and not arguments.rewind else {}
    written = not left and not any((outcome or {}).values())
    return EXIT_OK if whole and written else EXIT_DIFFERENT


def _record_move(clusters: MoveClusters, outcome: Mapping[str, str | None]) -> None:
    """Write into the flow's history who committed the offsets of which groups."""
    from connectors.mirror.history.flow_events import write_command

    moved = sorted(group for group, problem in outcome.items() if problem is None)
    props = clusters.there or clusters.back
    if moved and props is not None:
        there = "target" if clusters.there is not None else "source"
        to = props.get(f"{there}.cluster.alias", there)
        text = f"translate --commit: offsets of {', '.join(moved)} committed on {to}"
        write_command(props, "moved", "committed", text)


def _plan(
    arguments: argparse.Namespace,
    clusters: MoveClusters,
    groups: JavaRegex,
    deadline: Deadline,
) -> MovePlan:
    live = not arguments.checkpoints and _is_known(arguments)
    if not live:
        return plan_move(clusters, groups, deadline, live=False)
    try:
        # An unreachable cluster must not take up the whole timeout.
        return plan_move(clusters, groups, Deadline(deadline.remaining() / 2), live=True)
    except RetriableError as error:
        if clusters.there is None:
            raise
        print(
            f"connect-mirror-client: using checkpoints, because {arguments.source} does not "
            f"answer: {error}",
            file=sys.stderr,
        )
        return plan_move(clusters, groups, deadline, live=False)


def _is_known(arguments: argparse.Namespace) -> bool:
    """Whether the arguments show how to reach the cluster of the groups."""
    return arguments.config is not None or arguments.from_bootstrap is not None


def _pattern(arguments: argparse.Namespace) -> JavaRegex:
    if arguments.group is not None:
        return literal_regex(arguments.group)
    try:
        return compile_java_regex(arguments.groups)
    except JavaRegexError as error:
        raise ConfigError(f"Invalid value {arguments.groups} for --groups: {error}") from error


def _move_clusters(arguments: argparse.Namespace) -> MoveClusters:
    if arguments.config is None:
        return _bare_clusters(arguments)
    config = MirrorMakerConfig.from_file(arguments.config)
    source = _alias(config, "--from", arguments.source)
    target = _alias(config, "--to", arguments.to)
    clusters = MoveClusters(_flow(config, source, target), _flow(config, target, source))
    if clusters == MoveClusters(None, None):
        raise ConfigError(
            f"Neither {source}->{target} nor {target}->{source} is enabled: nothing is mirrored "
            "between these clusters"
        )
    return clusters


def _flow(config: MirrorMakerConfig, source: str, target: str) -> FlowProps | None:
    if not config.mirrors(Flow(source, target)):
        return None
    providers = ConfigProviders.from_properties(config.worker_config(source, target))
    return providers.resolve(config.connector_config(source, target, _CONNECTOR))


def _bare_clusters(arguments: argparse.Namespace) -> MoveClusters:
    """Return the flows in both directions, from the command line alone."""
    common = _command_config(arguments)
    if arguments.from_bootstrap is not None and arguments.to is None:
        raise ConfigError(
            "--from-bootstrap needs --to ALIAS for the cluster of --bootstrap: topic names contain "
            "that alias"
        )
    source, target = arguments.source, arguments.to or "target"
    servers = {source: arguments.from_bootstrap, target: arguments.bootstrap}

    def flow(a: str, b: str) -> FlowProps:
        props = dict(common)
        for side, alias in (("source", a), ("target", b)):
            props[f"{side}.cluster.alias"] = alias
            connection = {**common, "bootstrap.servers": servers[alias] or ""}
            props |= {f"{side}.cluster.{key}": value for key, value in connection.items()}
        return props

    back = None if arguments.from_bootstrap is None else flow(target, source)
    return MoveClusters(flow(source, target), back)


def _command_config(arguments: argparse.Namespace) -> dict[str, str]:
    if arguments.command_config is None:
        return {}
    props = load_properties(arguments.command_config)
    return ConfigProviders.from_properties(props).resolve(props)


def _alias(config: MirrorMakerConfig, option: str, alias: str | None) -> str:
    known = ", ".join(config.clusters)
    if alias is None:
        raise ConfigError(f"{option} is missing: use one of clusters={known}")
    if alias not in config.clusters:
        raise ConfigError(f"Invalid value {alias} for {option}: use one of clusters={known}")
    return alias


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
