"""Decides where the history of a flow is stored: `mirror.history.url`, or a file of the flow's own.

The default file is named after the two clusters' aliases and a digest of their bootstrap servers,
so that flows of the same name between other clusters don't share it. Commands that an operator
types beside the systemd service find the service's file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from connect.config.types import SecretStr
from connectors.mirror.config.loss_policies import HISTORY_OFF

__all__ = ["default_history_directory", "default_history_files", "flow_history_url", "is_off"]

SERVICE_DIRECTORY = Path("/var/lib/kafka-connect-mirror")
"""The state directory of the units in deploy/systemd."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_DIGITS = 8


def default_history_directory() -> Path:
    """Return the directory of the default history files: one per user of a host; under systemd it
    is the service's state directory."""
    service = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    if service:
        return Path(service)
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "connect-mirror"


def default_history_files() -> list[Path]:
    """Return the existing default history files of all flows, also those of the systemd service if
    this user may read them, and the one that all flows of earlier releases shared."""
    directories = dict.fromkeys((default_history_directory(), SERVICE_DIRECTORY))
    found = [file for directory in directories for file in directory.glob("history*.db")]
    return sorted(file for file in found if os.access(file, os.R_OK))


def flow_history_url(url: SecretStr | None, props: Mapping[str, str]) -> SecretStr:
    """Return the URL of a flow's history. `url`: the value of `mirror.history.url`; `props`: the
    flow's connector properties."""
    if url is not None:
        return url
    aliases = [props.get(f"{side}.cluster.alias", side).strip() for side in ("source", "target")]
    servers = [
        ",".join(sorted(each.strip() for each in props.get(key, "").split(",")))
        for key in ("source.cluster.bootstrap.servers", "target.cluster.bootstrap.servers")
    ]
    digest = hashlib.sha256("\n".join([*aliases, *servers]).encode()).hexdigest()[:_DIGITS]
    names = "-".join(_UNSAFE.sub("_", alias) for alias in aliases)
    name = f"history-{names}-{digest}.db"
    own, service = default_history_directory() / name, SERVICE_DIRECTORY / name
    of_service = not own.exists() and os.access(service, os.R_OK | os.W_OK)
    return SecretStr(f"sqlite:///{service if of_service else own}")


def is_off(url: SecretStr | None) -> bool:
    """Whether this URL disables the history."""
    return url is not None and url.reveal().strip().lower() in (HISTORY_OFF, "")
