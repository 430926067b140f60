"""Names of the old documents that MirrorMaker 2 has since given up, and their new names."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.mirrormaker.config.precedence import Setting

__all__ = ["RENAMED", "rename_legacy_keys"]

RENAMED = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}


def rename_legacy_keys(props: Mapping[str, Setting]) -> tuple[dict[str, Setting], list[str]]:
    """`props` with old names replaced, on whatever level they stand, and a warning for each.

    Where old and new name stand on the same level, the new one counts. A setting keeps the key it
    was written under, so that errors name what is in the file.
    """
    result: dict[str, Setting] = {}
    warnings: list[str] = []
    for key, setting in props.items():
        new = _new_name(key)
        if new is None:
            result[key] = setting
            continue
        if new in props:
            warnings.append(f"{key} is the old name of {new}, which is set too and counts")
        else:
            warnings.append(f"{key} is the old name of {new}; it is taken as that")
            result[new] = setting
    return result, warnings


def _new_name(key: str) -> str | None:
    for old, new in RENAMED.items():
        if key == old:
            return new
        if key.endswith("." + old):
            return key[: -len(old)] + new
    return None
