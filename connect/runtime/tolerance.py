"""What a connector's `errors.*` asks for, and what of it this worker does not do."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from connect.errors import ConfigError

__all__ = ["check_error_handling", "warn_of_error_handling"]

_log = logging.getLogger(__name__)

# Key -> the values that mean what is done anyway: the first failed record fails the task.
_DONE: Mapping[str, frozenset[str]] = {
    "errors.tolerance": frozenset({"", "none"}),
    "errors.retry.timeout": frozenset({"", "0"}),
    "errors.log.enable": frozenset({"", "false"}),
    "errors.deadletterqueue.topic.name": frozenset({""}),
}


def check_error_handling(config: Mapping[str, str]) -> None:
    """Raises `ConfigError` for error handling that records would silently not get."""
    for key, done in _DONE.items():
        value = config.get(key, "").strip()
        if value.lower() not in done:
            raise ConfigError(
                f"Invalid value {value} for configuration {key}: this worker does not skip, retry,"
                " log or set aside failed records; the first one fails the task; remove the key",
                key=key,
                value=value,
            )


def warn_of_error_handling(connector: str, config: Mapping[str, str]) -> None:
    """The same for tasks that move bytes: they convert nothing, so little of it could matter."""
    try:
        check_error_handling(config)
    except ConfigError as error:
        _log.warning(
            "%s of connector %s has no effect: its tasks forward batches as they are, and what"
            " cannot be forwarded fails them",
            error.key,
            connector,
        )
