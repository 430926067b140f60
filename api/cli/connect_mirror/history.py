"""`connect-mirror history`: events of the flows of the file, from their history databases."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.cli import mirror_client
from api.cli.connect_mirror.options import (
    CONFIG_VARIABLE,
    add_config_option,
    add_flow_option,
    default_config,
)
from api.cli.output.mirror_client import Output
from api.cli.program import EXIT_OK
from connect.errors import ConfigError
from connectors.mirror.config.history_url import is_off
from connectors.mirror.history.database import newest_events, read_events, there_is

if TYPE_CHECKING:
    from connect.config.types import SecretStr

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser)
    # Without a file the histories of all flows that ran here are shown.
    parser.set_defaults(config=None)
    add_flow_option(parser)
    mirror_client.add_history_options(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Print the newest events. Returns the exit code."""
    limit = max(1, arguments.limit)
    url = mirror_client.history_url(arguments)
    file = None if url is not None else _file(arguments.config)
    if file is None:
        output.events(read_events(url, limit, _pair(arguments.flow)))
        return EXIT_OK
    found: list[dict[str, Any]] = []
    for each, flows in _histories(file, arguments.flow):
        found += read_events(each, limit, flows)
    output.events(newest_events(found, limit))
    return EXIT_OK


def _file(given: Path | None) -> Path | None:
    """Return the file of the flows; None if none was given and none is at the usual places."""
    usual = default_config()
    if given is None and not usual.exists() and not os.environ.get(CONFIG_VARIABLE):
        return None
    return given or usual


def _pair(flow: str | None) -> Sequence[tuple[str, str]] | None:
    """Return the aliases of a flow that no file describes."""
    if flow is None:
        return None
    source, colon, target = flow.replace(" ", "").replace("->", ":").partition(":")
    if not (source and colon and target):
        raise ConfigError(
            f"Invalid value for --flow: {flow}. Write A:B, or quote 'A->B'", key="--flow"
        )
    return [(source, target)]


def _histories(file: Path, name: str | None) -> Iterator[tuple[SecretStr, list[tuple[str, str]]]]:
    """Return each database of the file's flows, and which flows are in it."""
    from connectors.mirror.config.source import SourceConfig
    from connectors.mirrormaker.flow_lookup import copying_plans, load_file
    from connectors.mirrormaker.flow_plans import resolved_source_config

    config = load_file(file)
    plans = copying_plans(config, name)
    found: dict[str, tuple[SecretStr, list[tuple[str, str]]]] = {}
    for plan in plans:
        props = resolved_source_config(config, plan)
        url = SourceConfig.from_properties(props).mirror_history_url
        if there_is(url):
            found.setdefault(url.reveal(), (url, []))[1].append((plan.source, plan.target))
        elif name is not None and is_off(url):
            raise ConfigError(
                f"Flow {plan.name} has no history: mirror.history.url is none",
                key="mirror.history.url",
            )
    if not found:
        names = ", ".join(plan.name for plan in plans)
        raise ConfigError(
            f"There is no history of {names} on this host for this user. Run the command where the "
            "mirror runs, as its user or as root, or set --url"
        )
    yield from found.values()
