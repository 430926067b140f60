"""The old names of keys that MirrorMaker 2 has renamed."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.mirror.config.former_names import RENAMED
from connectors.mirrormaker.config.precedence import Setting

__all__ = ["rename_legacy_keys"]


def rename_legacy_keys(props: Mapping[str, Setting]) -> tuple[dict[str, Setting], list[str]]:
    """Return `props` with old key names replaced on every level, and a warning for each.

    If both names are set on the same level, the new one takes precedence. A setting keeps the key
    as written in the file, for errors.
    """
    result: dict[str, Setting] = {}
    warnings: list[str] = []
    for key, setting in props.items():
        new = _new_name(key)
        if new is None:
            result[key] = setting
            continue
        if new in props:
            warnings.append(
                f"{key} is the old name of {new}; it is ignored because {new} is set too"
            )
        else:
            warnings.append(f"{key} is the old name of {new}; rename it")
            result[new] = setting
    return result, warnings


def _new_name(key: str) -> str | None:
    for old, new in RENAMED.items():
        if key == old:
            return new
        if key.endswith("." + old):
            return key[: -len(old)] + new
    return None
