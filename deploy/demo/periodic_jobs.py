"""The periodic jobs of the mirror in the demo of Spark: a config that follows its source, a group
whose offsets are translated, and the engine that computed both."""

from __future__ import annotations

import json

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigChange
from deploy.demo.events import topic_named
from deploy.demo.mirror import read_page

__all__ = [
    "CHANGED",
    "CHANGED_CONFIG",
    "CHECKPOINTS",
    "CONFIG_SYNC",
    "change_config",
    "copied_config",
    "engine_of",
]

CONFIG_SYNC, CHECKPOINTS = "Config sync", "Checkpoints"
"""The jobs' names at /health begin with these."""

CHANGED = topic_named("orders")
CHANGED_CONFIG = ConfigChange("retention.ms", "123456789")
"""No cluster has it by default."""


def engine_of(listener: str, job: str) -> str:
    """Return the engine that computed the last round of a job: `spark`, or `process` and why; empty
    if there was none yet, or the mirror's page is not available."""
    page = read_page(f"{listener}/health?verbose")
    jobs = json.loads(page)["jobs"] if page.startswith("{") else []
    return next((each["engine"] or "" for each in jobs if each["name"].startswith(job)), "")


def change_config(servers: str) -> None:
    """Change the config of `CHANGED`. Raises `ConnectError`."""
    admin = Admin({"bootstrap.servers": servers})
    try:
        failures = admin.alter_topic_configs({CHANGED.name: [CHANGED_CONFIG]})
    finally:
        admin.close()
    for error in failures.values():
        raise error


def copied_config(servers: str, prefix: str) -> bool:
    """Whether the copy of `CHANGED` has the changed config."""
    admin = Admin({"bootstrap.servers": servers})
    try:
        (entries,) = admin.describe_topic_configs([prefix + CHANGED.name]).values()
    finally:
        admin.close()
    return any(
        entry.name == CHANGED_CONFIG.name and entry.value == CHANGED_CONFIG.value
        for entry in entries
    )
