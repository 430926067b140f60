"""Keys of a connector's config that its tasks can apply while they run. Pure.

They are defined by `Connector.live_keys`. Committed task configs do not contain them: tasks use the
connector's values. A change of only such keys therefore commits and stops nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["differ_only_live", "with_live", "without_live"]


def without_live(config: Mapping[str, str], live: frozenset[str]) -> dict[str, str]:
    """Return a config without these keys."""
    return {key: value for key, value in config.items() if key not in live}


def with_live(
    task_config: Mapping[str, str], connector_config: Mapping[str, str], live: frozenset[str]
) -> dict[str, str]:
    """Return a task's config with its connector's values of these keys."""
    values = {key: connector_config[key] for key in live if key in connector_config}
    return {**without_live(task_config, live), **values}


def differ_only_live(
    before: Mapping[str, str], after: Mapping[str, str], live: frozenset[str]
) -> bool:
    """Return whether two configs of a connector differ at most in these keys."""
    return without_live(before, live) == without_live(after, live)
