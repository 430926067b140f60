"""Convert the task configs that a connector generates to the stored and the running form. Pure.

Stored configs contain no secrets: config provider references of the connector's config stay
references in its tasks' configs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect.config.providers import has_reference
from connect.config.types import ConfigType, parse_value
from connect.errors import TaskFailed

__all__ = [
    "TASK_CLASS",
    "check_task_count",
    "enforces_tasks_max",
    "kept_task_configs",
    "tasks_max",
    "too_many_tasks",
]

TASK_CLASS = "task.class"

# A sink connector's keys that its tasks need to subscribe.
_COPIED = ("topics", "topics.regex")


def tasks_max(config: Mapping[str, str]) -> int:
    """Return the connector's `tasks.max`. The config must be validated."""
    return int(config.get("tasks.max", "1"))


def enforces_tasks_max(config: Mapping[str, str]) -> bool:
    """Return whether more tasks than `tasks.max` fail the connector. The config must be
    validated.
    """
    text = config.get("tasks.max.enforce", "true")
    return parse_value("tasks.max.enforce", text, ConfigType.BOOLEAN) is True


def too_many_tasks(connector: str, count: int, config: Mapping[str, str]) -> str | None:
    """Return the error text for a connector that generated `count` tasks; None within
    `tasks.max`.
    """
    limit = tasks_max(config)
    if count <= limit:
        return None
    return (
        f"The connector {connector} has generated {count} tasks, which is greater than {limit}, the"
        " maximum number of tasks it is configured to create."
    )


def check_task_count(connector: str, count: int, connector_config: Mapping[str, str]) -> None:
    """Raise `TaskFailed` if the connector generated too many tasks; none of them is created."""
    text = too_many_tasks(connector, count, connector_config)
    if text is not None and enforces_tasks_max(connector_config):
        raise TaskFailed(f"{text} Fix the connector, or set tasks.max.enforce=false.")


def kept_task_configs(
    raw_connector_config: Mapping[str, str],
    task_class: str,
    generated: Sequence[Mapping[str, str]],
) -> list[dict[str, str]]:
    """Return the task configs in their stored form.

    `raw_connector_config` has config provider references unresolved. `task_class` is the name by
    which the task's class is found again.
    """
    references = {key: value for key, value in raw_connector_config.items() if has_reference(value)}
    copied = {key: raw_connector_config[key] for key in _COPIED if key in raw_connector_config}
    kept = []
    for config in generated:
        complete = {**config, TASK_CLASS: task_class, **copied}
        complete.update({key: value for key, value in references.items() if key in complete})
        kept.append(complete)
    return kept
