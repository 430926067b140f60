"""`acls`: print the kafka-acls.sh commands that grant what a file's flows need, or a worker of
Connect and its connectors."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from api.cli.output import formats
from api.cli.output.tables import table_printer
from api.cli.program import EXIT_OK
from connect.clients.permissions import Operation, Resource
from connect.errors import ConfigError
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.permissions import permissions_by_cluster
from connectors.mirrormaker.required_permissions import ON_REQUEST, Pattern, RequiredPermission

__all__ = ["add_arguments", "add_options", "add_output_option", "kafka_acls_commands", "run"]

_COLUMNS = ("cluster", "principal", "operation", "resource", "name", "pattern")
_MORE = {each.value.replace(" --", "-").replace(" ", "-"): each for each in ON_REQUEST}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    file = parser.add_mutually_exclusive_group(required=True)
    file.add_argument("--config", type=Path, metavar="FILE", help="mm2.properties file")
    file.add_argument(
        "--worker",
        metavar="FILE",
        help="worker.properties file of connect-distributed or connect-standalone",
    )
    parser.add_argument(
        "--connector",
        dest="connectors",
        metavar="FILE",
        action="append",
        default=[],
        help="with --worker: also for this connector; a file as for connect-standalone",
    )
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments besides the file."""
    parser.add_argument(
        "--principal",
        metavar="TYPE:NAME",
        required=True,
        help="principal that the mirror logs in as, for example User:mirror",
    )
    parser.add_argument("--cluster", metavar="ALIAS", help="print only this cluster's commands")
    parser.add_argument(
        "--clusters",
        metavar="ALIAS",
        nargs="+",
        help="only for flows into these clusters, as for connect-mirror-maker",
    )
    parser.add_argument(
        "--with",
        dest="more",
        choices=sorted(_MORE),
        action="append",
        default=[],
        help="also for this program, or for such brokers",
    )


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Declare `-o`: without it commands are printed, with it the ACLs themselves."""
    formats.add_output_option(
        parser, "print the ACLs in this format (default: kafka-acls.sh commands)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the commands, by cluster. Contacts no cluster. Raises `ConfigError`."""
    kind, _, name = arguments.principal.partition(":")
    if not kind or not name:
        raise ConfigError(
            f"Invalid value {arguments.principal} for --principal: write it as TYPE:NAME, for "
            "example User:mirror"
        )
    servers, found = _needed(arguments)
    if arguments.cluster is not None:
        if arguments.cluster not in found:
            known = ", ".join(sorted(found))
            raise ConfigError(
                f"Invalid value {arguments.cluster} for --cluster: nothing here uses it; use one "
                f"of {known}"
            )
        found = {arguments.cluster: found[arguments.cluster]}
    formats.print_result(
        arguments,
        lambda: [
            dict(zip(_COLUMNS, row, strict=True)) for row in _rows(arguments.principal, found)
        ],
        lambda output: (
            _print_commands(servers, arguments.principal, found)
            if output is None
            else table_printer(output=output).table(
                "ACLs", _COLUMNS, list(_rows(arguments.principal, found))
            )
        ),
    )
    return EXIT_OK


def _needed(
    arguments: argparse.Namespace,
) -> tuple[Mapping[str, str], Mapping[str, Sequence[RequiredPermission]]]:
    """Return bootstrap servers and what must be granted, by cluster. Raises `ConfigError`."""
    worker = getattr(arguments, "worker", None)
    if worker is None:
        if getattr(arguments, "connectors", None):
            raise ConfigError("--connector needs --worker: flows have their connectors in --config")
        config = MirrorMakerConfig.from_file(arguments.config)
        more = [_MORE[each] for each in arguments.more]
        found = permissions_by_cluster(config, arguments.clusters, more)
        return {alias: config.client_config(alias)["bootstrap.servers"] for alias in found}, found
    if arguments.clusters or arguments.more:
        raise ConfigError("--clusters and --with need --config: a worker's file has no flows")
    from api.cli.worker_start.needed_permissions import needed_by_worker

    return needed_by_worker(worker, arguments.connectors)


def _rows(
    principal: str, found: Mapping[str, Sequence[RequiredPermission]]
) -> Iterator[tuple[str, ...]]:
    for alias, permissions in found.items():
        for each in permissions:
            pattern = "prefixed" if each.pattern.prefixed else "literal"
            resource = (each.resource.value, each.pattern.name, pattern)
            yield (alias, principal, str(each.operation), *resource)


def _print_commands(
    servers: Mapping[str, str],
    principal: str,
    found: Mapping[str, Sequence[RequiredPermission]],
) -> None:
    for alias, permissions in found.items():
        print(f"# cluster {alias}")
        at = servers[alias].replace(" ", "")
        for line in kafka_acls_commands(at, principal, permissions):
            print(line)


def kafka_acls_commands(
    servers: str, principal: str, permissions: Iterable[RequiredPermission]
) -> Iterator[str]:
    """Return one command for each resource. A shell reads each line as these words."""
    by_resource: dict[tuple[Resource, Pattern], list[Operation]] = {}
    for each in permissions:
        by_resource.setdefault((each.resource, each.pattern), []).append(each.operation)
    for (resource, pattern), operations in by_resource.items():
        words = ["kafka-acls.sh", "--bootstrap-server", servers]
        words += ["--command-config", "admin.properties", "--add", "--allow-principal", principal]
        for operation in dict.fromkeys(operations):
            words += ["--operation", str(operation)]
        words.append(f"--{resource.value.replace(' ', '-')}")
        if pattern.name:
            words.append(pattern.name)
        if pattern.prefixed:
            words += ["--resource-pattern-type", "prefixed"]
        yield shlex.join(words)
