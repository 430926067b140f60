"""`--version`, the same for every command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from connect.version import KAFKA_VERSION, VERSION

__all__ = ["add_version"]


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add `--version` to a command's parser: it prints the release and ends with 0."""
    parser.add_argument("--version", action=_PrintVersion, help="print the version and exit")


class _PrintVersion(argparse.Action):
    """Prints the version and exits with 0. argparse's own action calls the parser's `exit`, which
    for workers exits with 1, because Java's workers do so after `--help`."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(
            option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help
        )

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        print(f"{parser.prog} {VERSION} (behaves as Apache Kafka {KAFKA_VERSION})")
        raise SystemExit(0)
