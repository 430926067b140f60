"""The formats of `-o`: tables, tab-separated lines, JSON and YAML; and the file of `--json`. The
same for every command."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from connect.errors import ConnectError

__all__ = [
    "FORMATS",
    "add_output_option",
    "is_document",
    "print_document",
    "print_result",
    "write_json",
]

TABLE, TSV, JSON, YAML = FORMATS = ("table", "tsv", "json", "yaml")


def add_output_option(
    parser: argparse.ArgumentParser,
    text: str = "output format (default: table on a terminal, otherwise tsv)",
) -> None:
    """Add `-o`, which sets `output`; None: tables on a terminal, otherwise tab-separated lines, or
    what the help `text` says."""
    parser.add_argument("-o", "--output", choices=FORMATS, help=text)


def is_document(arguments: argparse.Namespace) -> bool:
    """Whether the user asked for JSON or YAML. Commands without `-o` print text."""
    return getattr(arguments, "output", None) in (JSON, YAML)


def print_document(document: object, output: str, out: TextIO | None = None) -> None:
    """Print a plain value as `json` or `yaml`."""
    stream = sys.stdout if out is None else out
    if output == YAML:
        import yaml

        yaml.safe_dump(document, stream, sort_keys=False, allow_unicode=True)
        return
    json.dump(document, stream, indent=2)
    stream.write("\n")


def print_result(
    arguments: argparse.Namespace,
    document: Callable[[], object],
    text: Callable[[str | None], None],
) -> None:
    """Print a result in the format that the user asked for. `text` prints tables or lines; its
    argument is `table`, `tsv` or None."""
    output = getattr(arguments, "output", None)
    if output in (JSON, YAML):
        # Round trip: named tuples, enums of text and the like become plain values.
        print_document(json.loads(json.dumps(document(), default=str)), output)
    else:
        text(output)


def write_json(path: Path | None, content: Mapping[str, object]) -> None:
    """Write the file of `--json`; None: it is not given. The file is replaced, so that a reader
    never sees a part of it. Raises `ConnectError`."""
    if path is None:
        return
    text = json.dumps(content, indent=1) + "\n"
    draft = path.with_name(f".{path.name}.new")
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_text(text)  # Such as /dev/stdout.
            return
        draft.write_text(text)
        draft.replace(path)
    except OSError as error:
        raise ConnectError(f"Cannot write --json {path}: {error.strerror or error}") from error
