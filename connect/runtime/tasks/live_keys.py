"""Keys of a connector's config that its tasks take over while they run. Pure.

See `Connector.live_keys`. They are not in the committed configs of tasks: a task has its
connector's values. So a change of nothing else commits nothing, and stops nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["differ_only_live", "with_live", "without_live"]


def without_live(config: Mapping[str, str], live: frozenset[str]) -> dict[str, str]:
    """The rest of a config."""
    return {key: value for key, value in config.items() if key not in live}


def with_live(
    task_config: Mapping[str, str], connector_config: Mapping[str, str], live: frozenset[str]
) -> dict[str, str]:
    """A task's config with its connector's values."""
    values = {key: connector_config[key] for key in live if key in connector_config}
    return {**without_live(task_config, live), **values}


def differ_only_live(
    before: Mapping[str, str], after: Mapping[str, str], live: frozenset[str]
) -> bool:
    """Whether configs of a connector are the same or differ in nothing but these keys."""
    return without_live(before, live) == without_live(after, live)
