"""`python -m api.cli.config_reference`: every property this project takes, as a Markdown page.

The page is made from the same declarations that parse the properties, so it cannot be out of date.
Given a path, it is written there; otherwise to standard output.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from connect.config.definition import ConfigDef
from connect.config.security import SECURITY_KEYS
from connect.config.worker_keys import DISTRIBUTED_CONFIG_DEF
from connectors.mirror.config.base import BASE_CONFIG_DEF
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.config.heartbeat import HEARTBEAT_CONFIG_DEF
from connectors.mirror.config.source import SOURCE_CONFIG_DEF
from connectors.mirrormaker.config.mm2_properties import MAKER_CONFIG_DEF

__all__ = ["main", "render"]

_TITLE = """# Configuration reference

Made by `python -m api.cli.config_reference`; do not edit. How the levels of an mm2.properties
combine is told in the [configuration guide](configuration.md).
"""


def render() -> str:
    """The whole page."""
    security = ConfigDef(SECURITY_KEYS)
    base = _without(BASE_CONFIG_DEF, security)
    sections = (
        ("mm2.properties, top level", "Read from the top level only.", MAKER_CONFIG_DEF),
        (
            "All mirror connectors",
            "At the top level for every flow, or as `A->B.<key>` for one.",
            base,
        ),
        ("MirrorSourceConnector", "As above.", _without(SOURCE_CONFIG_DEF, BASE_CONFIG_DEF)),
        (
            "MirrorCheckpointConnector",
            "As above.",
            _without(CHECKPOINT_CONFIG_DEF, BASE_CONFIG_DEF),
        ),
        ("MirrorHeartbeatConnector", "As above.", _without(HEARTBEAT_CONFIG_DEF, BASE_CONFIG_DEF)),
        (
            "Workers",
            "As `B.<key>` for the worker that writes into cluster B. In dedicated mode the "
            "required ones are set, and `offset.flush.interval.ms` is 5000 unless set.",
            _without(DISTRIBUTED_CONFIG_DEF, security),
        ),
        (
            "Connections to a cluster",
            "As `A.<key>` for cluster A, at the top level for all, or for one kind of client as "
            "`A.consumer.<key>`, `A.producer.<key>`, `A.admin.<key>`.",
            security,
        ),
    )
    return "\n".join(
        [
            _TITLE,
            *(f"## {name}\n\n{where}\n\n{keys.markdown_table()}" for name, where, keys in sections),
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "path", nargs="?", type=Path, help="file to write; default: standard output"
    )
    path: Path | None = parser.parse_args(argv).path
    page = render()
    if path is None:
        sys.stdout.write(page)
    else:
        path.write_text(page, encoding="utf-8")
    return 0


def _without(definition: ConfigDef, other: ConfigDef) -> ConfigDef:
    return ConfigDef(key for key in definition if key.name not in other)


if __name__ == "__main__":
    sys.exit(main())
