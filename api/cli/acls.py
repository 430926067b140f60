"""`acls`: print the kafka-acls.sh commands that grant what a file's flows need."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from api.cli.program import EXIT_OK
from connect.clients.permissions import Operation, Resource
from connect.errors import ConfigError
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.permissions import permissions_by_cluster
from connectors.mirrormaker.required_permissions import TOOLS, Pattern, RequiredPermission

__all__ = ["add_arguments", "add_options", "kafka_acls_commands", "run"]

_TOOLS = {tool.value.replace(" --", "-"): tool for tool in TOOLS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", required=True, help="mm2.properties file"
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
        dest="tools",
        choices=sorted(_TOOLS),
        action="append",
        default=[],
        help="also for this program",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the commands, by cluster. Contacts no cluster. Raises `ConfigError`."""
    kind, _, name = arguments.principal.partition(":")
    if not kind or not name:
        raise ConfigError(
            f"Invalid value {arguments.principal} for --principal: write it as TYPE:NAME, for "
            "example User:mirror"
        )
    config = MirrorMakerConfig.from_file(arguments.config)
    tools = [_TOOLS[tool] for tool in arguments.tools]
    found = permissions_by_cluster(config, arguments.clusters, tools)
    if arguments.cluster is not None:
        if arguments.cluster not in found:
            known = ", ".join(sorted(found))
            raise ConfigError(
                f"Invalid value {arguments.cluster} for --cluster: no flow uses it; use one of "
                f"{known}"
            )
        found = {arguments.cluster: found[arguments.cluster]}
    for alias, permissions in found.items():
        servers = config.client_config(alias)["bootstrap.servers"].replace(" ", "")
        print(f"# cluster {alias}")
        for line in kafka_acls_commands(servers, arguments.principal, permissions):
            print(line)
    return EXIT_OK


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
