"""Finds settings that a worker's operator must permit before a mirror connector's config may
contain them.

In dedicated mode the config is the operator's own, and everything is permitted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from connect.config.definition import ConfigDef, ConfigKey, ConfigProblem, Importance
from connect.config.types import ConfigType
from connect.config.validators import ValidList
from connectors.mirror.config.base import (
    FORWARDING_ADMIN_KEY,
    JAVA_FORWARDING_ADMIN,
    JAVA_PACKAGE,
    MAPPING_FILE_KEY,
)
from connectors.mirror.config.loss_policies import HISTORY_OFF, URL_KEY
from connectors.mirror.topic_routes import TRANSFORM_KEY
from connectors.spark.properties import not_permitted as spark_not_permitted

__all__ = ["HISTORY_ALLOWED_URLS", "not_permitted"]

_CLASS_KEYS = (
    "replication.policy.class",
    "topic.filter.class",
    "group.filter.class",
    "config.property.filter.class",
    FORWARDING_ADMIN_KEY,
)

_WORKERS_VALUES = {
    MAPPING_FILE_KEY: "may not read this file; its operator can set the same key in the worker's "
    "properties",
    # A function is code, and SQL can call Java and read files.
    TRANSFORM_KEY: "may not name code; its operator can set the same key to this value in the "
    "worker's properties",
}
"""Keys whose value a connector may only repeat, and what it may not do."""

HISTORY_ALLOWED_URLS = ConfigKey(
    "mirror.history.allowed.urls",
    ConfigType.LIST,
    (),
    ValidList(),
    Importance.LOW,
    f"Values of `{URL_KEY}` that connectors' configs may have, besides the default. The URL of a "
    "database chooses a file or a host, with the worker's rights.",
)


def not_permitted(config: Mapping[str, str], worker: Mapping[str, str]) -> list[ConfigProblem]:
    """Return the settings of a connector's config that the worker's properties do not permit."""
    own = [
        *_history(config, worker),
        *_values(config, worker),
        *_classes(config, worker),
    ]
    return [*spark_not_permitted(config, worker), *own]


def _classes(config: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Find class names that would import a module, which runs its code. A module that is loaded
    already, as those of plugin.path are, or a name without a module, runs nothing."""
    for key in _CLASS_KEYS:
        name = config.get(key, "").strip()
        module = name.replace(":", ".", 1).rpartition(".")[0]
        known = (
            not module
            or name == JAVA_FORWARDING_ADMIN
            or name.startswith(JAVA_PACKAGE)
            or module in sys.modules
        )
        if not known and name != worker.get(key, "").strip():
            yield ConfigProblem(
                key,
                f"Invalid value {name} for configuration {key}: connectors of this worker may not "
                f"load the module {module}; its operator can put it into plugin.path, or set the "
                "same key in the worker's properties",
            )


def _values(config: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Find values that only the worker's properties may introduce."""
    for key, why in _WORKERS_VALUES.items():
        value = config.get(key, "").strip()
        if value and value != worker.get(key, "").strip():
            wrong = f"Invalid value {value} for configuration {key}"
            yield ConfigProblem(key, f"{wrong}: connectors of this worker {why}")


def _history(config: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[ConfigProblem]:
    listed = ConfigDef([HISTORY_ALLOWED_URLS]).parse(worker).strings(HISTORY_ALLOWED_URLS.name)
    url = config.get(URL_KEY, "").strip()
    if url.lower() in ("", HISTORY_OFF):
        return
    if url not in (*listed, worker.get(URL_KEY, "").strip()):
        # The URL may contain a password.
        yield ConfigProblem(
            URL_KEY,
            f"Invalid value [hidden] for configuration {URL_KEY}: connectors of this worker may "
            f"not use this database; its operator can add the URL to {HISTORY_ALLOWED_URLS.name} "
            "in the worker's properties",
        )
