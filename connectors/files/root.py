"""The directory to which the worker's operator confines the file connectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from connect.config.definition import ConfigDef, ConfigKey, ConfigProblem, Importance
from connect.config.types import ConfigType, invalid_value

__all__ = ["ROOT", "not_permitted"]

ROOT = ConfigKey(
    "file.connectors.root",
    ConfigType.STRING,
    None,
    importance=Importance.MEDIUM,
    doc="Switches FileStreamSource and FileStreamSink on, for files below this directory. Unset: "
    "their configs are refused. They read and write with the worker's rights.",
)


def not_permitted(config: Mapping[str, str], worker: Mapping[str, str]) -> list[ConfigProblem]:
    """Return the problem with a file connector's config, if any. Symbolic links are followed."""
    root = ConfigDef([ROOT]).parse(worker).optional_string(ROOT.name)
    if not root:
        return [
            ConfigProblem(
                "connector.class",
                "The file connectors are off, because users of the REST API could read and write "
                "files with them. To switch them on, set the directory they may use as "
                f"{ROOT.name} in the worker's properties",
            )
        ]
    file = config.get("file", "").strip()
    if not file or Path(file).resolve().is_relative_to(Path(root).resolve()):
        return []
    reason = f"must be below {root}, the worker's {ROOT.name}"
    return [ConfigProblem("file", str(invalid_value("file", file, reason)))]
