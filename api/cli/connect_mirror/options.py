"""Options that the subcommands of `connect-mirror` share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

__all__ = [
    "add_config_option",
    "add_flow_option",
    "default_config",
]

CONFIG_VARIABLE = "CONNECT_MIRROR_CONFIG"
CONFIG_FILES = (Path("mm2.properties"), Path("/etc/kafka-connect-mirror/mm2.properties"))


def default_config(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file that is used without `-c`: the one of CONNECT_MIRROR_CONFIG, else the first
    that exists of ./mm2.properties and /etc/kafka-connect-mirror/mm2.properties."""
    given = environment.get(CONFIG_VARIABLE)
    if given:
        return Path(given)
    return next((path for path in CONFIG_FILES if path.exists()), CONFIG_FILES[0])


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add `-c`, which sets `config`."""
    parser.add_argument(
        "-c",
        "--config",
        type=Path,
        default=default_config(),
        metavar="FILE",
        help=(
            f"mm2.properties file (default: ${CONFIG_VARIABLE}, else ./mm2.properties, else "
            "/etc/kafka-connect-mirror/mm2.properties)"
        ),
    )


def add_flow_option(parser: argparse.ArgumentParser) -> None:
    """Add `--flow`, which sets `flow`."""
    parser.add_argument(
        "--flow",
        metavar="A:B",
        help="the flow from A to B, also written 'A->B' (optional if only one flow copies)",
    )
