"""`connect-mirror import strimzi FILE`: print the mm2.properties of a KafkaMirrorMaker2 resource,
or write the files for Connect workers.

Everything that has no counterpart is a comment in the output, and a line on stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from api.cli.program import EXIT_OK
from connect.errors import ConfigError

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    from connectors.mirrormaker.config.strimzi_clusters import SECRETS_DIRECTORY

    parser.add_argument("format", choices=("strimzi",), help="what the file is")
    parser.add_argument("file", type=Path, metavar="FILE", help="YAML with a KafkaMirrorMaker2")
    parser.add_argument("--name", metavar="NAME", help="the resource, if the file has several")
    parser.add_argument(
        "--secrets",
        default=SECRETS_DIRECTORY,
        metavar="DIRECTORY",
        help="where secrets are mounted, one directory each (default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=Path,
        metavar="DIRECTORY",
        help="write files for Connect workers into this directory: worker.properties, and a JSON "
        "file for each connector (default: print the mm2.properties of a dedicated mirror)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the properties, or write the files. Returns the exit code. Raises `ConfigError`."""
    resource = _resource(arguments.file, arguments.name)
    name = (resource.get("metadata") or {}).get("name", "")
    heading = f"# Imported from {resource['kind']} {name} ({arguments.file.name})."
    if arguments.workers is not None:
        _write_for_workers(resource, arguments.secrets, heading, arguments.workers)
    else:
        _print_dedicated(resource, arguments.secrets, heading)
    return EXIT_OK


def _print_dedicated(resource: Mapping[str, Any], secrets: str, heading: str) -> None:
    from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
    from connectors.mirrormaker.config.strimzi import translate_strimzi

    found = translate_strimzi(resource, secrets)
    _say_left_out(found.left_out)
    print(_file(heading, found.left_out, found.properties), end="")
    plain = {key: value for key, value in found.properties.items() if "${" not in value}
    for warning in MirrorMakerConfig.from_properties(
        {k: v for k, v in plain.items() if not k.startswith("config.providers")}
    ).warnings:
        print(f"connect-mirror: {warning}", file=sys.stderr)


def _write_for_workers(
    resource: Mapping[str, Any], secrets: str, heading: str, directory: Path
) -> None:
    from connectors.mirrormaker.config.strimzi_workers import translate_for_workers

    found = translate_for_workers(resource, secrets)
    files = {"worker.properties": _file(heading, found.left_out, found.worker)}
    for connector in found.connectors:
        text = json.dumps(connector.body(), indent=2)
        # A shell takes > for a redirection.
        files[f"{connector.name.replace('->', '-')}.json"] = f"{text}\n"
    _say_left_out(found.left_out)
    for name, text in files.items():
        path = directory / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"Cannot write {path}: {error.strerror}") from error
        print(path)


def _say_left_out(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        print(f"connect-mirror: not imported: {sentence}", file=sys.stderr)


def _file(heading: str, left_out: Sequence[str], properties: Mapping[str, str]) -> str:
    lines = [heading, *(f"# Not imported: {sentence}" for sentence in left_out)]
    lines += [f"{key} = {value}".replace("\\", "\\\\") for key, value in properties.items()]
    return "\n".join(lines) + "\n"


def _resource(path: Path, name: str | None) -> dict[str, Any]:
    import yaml

    from connectors.mirrormaker.config.strimzi_clusters import KIND

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
