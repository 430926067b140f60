"""The former names of keys. Earlier releases of MirrorMaker 2 took them; later ones ignore them and
copy what was to be excluded."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["RENAMED", "former_names", "with_new_names"]

RENAMED = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}


def with_new_names(props: Mapping[str, str]) -> Mapping[str, str]:
    """Return a connector's properties with the new names. A new name wins over its former one."""
    if props.keys().isdisjoint(RENAMED):
        return props
    renamed = {key: value for key, value in props.items() if key not in RENAMED}
    for old, new in RENAMED.items():
        if old in props:
            renamed.setdefault(new, props[old])
    return renamed


def former_names(props: Mapping[str, str]) -> list[str]:
    """Return a warning for each former name in a connector's properties."""
    return [
        f"{old} is the old name of {new}; "
        + (f"it is ignored because {new} is set too" if new in props else "rename it")
        for old, new in RENAMED.items()
        if old in props
    ]
