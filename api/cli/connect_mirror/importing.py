"""`connect-mirror import strimzi FILE`: print the mm2.properties of a KafkaMirrorMaker2 resource.

Everything that has no counterpart is a comment in the output, and a line on stderr.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from api.cli.program import EXIT_OK
from connect.errors import ConfigError

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    from connectors.mirrormaker.config.strimzi import SECRETS_DIRECTORY

    parser.add_argument("format", choices=("strimzi",), help="what the file is")
    parser.add_argument("file", type=Path, metavar="FILE", help="YAML with a KafkaMirrorMaker2")
    parser.add_argument("--name", metavar="NAME", help="the resource, if the file has several")
    parser.add_argument(
        "--secrets",
        default=SECRETS_DIRECTORY,
        metavar="DIRECTORY",
        help="where secrets are mounted, one directory each (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the properties. Returns the exit code. Raises `ConfigError`."""
    from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
    from connectors.mirrormaker.config.strimzi import translate_strimzi

    resource = _resource(arguments.file, arguments.name)
    found = translate_strimzi(resource, arguments.secrets)
    name = (resource.get("metadata") or {}).get("name", "")
    print(f"# Imported from {resource['kind']} {name} ({arguments.file.name}).")
    for sentence in found.left_out:
        print(f"# Not imported: {sentence}")
        print(f"connect-mirror: not imported: {sentence}", file=sys.stderr)
    for key, value in found.properties.items():
        print(f"{key} = {value}".replace("\\", "\\\\"))
    plain = {key: value for key, value in found.properties.items() if "${" not in value}
    for warning in MirrorMakerConfig.from_properties(
        {k: v for k, v in plain.items() if not k.startswith("config.providers")}
    ).warnings:
        print(f"connect-mirror: {warning}", file=sys.stderr)
    return EXIT_OK


def _resource(path: Path, name: str | None) -> dict[str, Any]:
    import yaml

    from connectors.mirrormaker.config.strimzi import KIND

    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"Cannot read {path}: {error}") from error
    listed = [item for each in documents if isinstance(each, dict) for item in _items(each)]
    found = [each for each in listed if each.get("kind") == KIND]
    named = [each for each in found if name in (None, (each.get("metadata") or {}).get("name"))]
    if len(named) == 1:
        return named[0]
    if not found and listed:
        return listed[0]
    names = ", ".join(str((each.get("metadata") or {}).get("name")) for each in found) or "none"
    raise ConfigError(f"{path} has these {KIND} resources: {names}. Name one with --name")


def _items(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the items of a List, as kubectl prints several resources."""
    items = document.get("items")
    return items if document.get("kind") == "List" and isinstance(items, list) else [document]
